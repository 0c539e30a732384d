//! The processor's identity, and whether a hypervisor stands between it and this system.

use serde::Serialize;

/// A processor as it names itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Processor {
    /// Its instruction set, as machine files name it.
    pub isa: String,
    /// Who made it: CPUID's vendor, or the implementer of MIDR.
    pub vendor: String,
    /// The name it gives itself. A hypervisor may shorten it.
    pub name: String,
    /// Family (CPUID); 0 on Arm.
    pub family: u32,
    /// Model (CPUID), or the part number of MIDR.
    pub model: u32,
    /// Stepping (CPUID), or the revision of MIDR.
    pub stepping: u32,
    /// Extensions that tell generations apart where a hypervisor hides the model, as Linux names them: `amx_tile`,
    /// `amx_fp16`.
    pub extensions: Vec<String>,
    /// CPUs of this system.
    pub cpus: u32,
    /// Bytes of memory of this system.
    pub memory_bytes: u64,
    /// The hypervisor's signature; `unnamed` where there is one without; None where no sign of one was found.
    pub hypervisor: Option<String>,
}

/// This computer's.
pub fn processor() -> Processor {
    let (cpus, memory_bytes) = system();
    Processor { cpus, memory_bytes, ..identity() }
}

fn system() -> (u32, u64) {
    // SAFETY: three questions without arguments.
    let (cpus, pages, page) = unsafe {
        (
            libc::sysconf(libc::_SC_NPROCESSORS_ONLN),
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    (cpus.max(1) as u32, pages.max(0) as u64 * page.max(0) as u64)
}

#[cfg(target_arch = "x86_64")]
fn identity() -> Processor {
    // The intrinsic is unsafe in Rust 1.88, and needs nothing but the instruction.
    #[allow(unused_unsafe)]
    fn cpuid_of(leaf: u32, part: u32) -> std::arch::x86_64::CpuidResult {
        // SAFETY: every x86-64 processor has CPUID.
        unsafe { std::arch::x86_64::__cpuid_count(leaf, part) }
    }
    let cpuid = |leaf| cpuid_of(leaf, 0);
    let text = |registers: &[u32]| {
        let bytes: Vec<u8> = registers.iter().flat_map(|r| r.to_le_bytes()).take_while(|&b| b != 0).collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    };
    let zero = cpuid(0);
    let one = cpuid(1);
    let signature = Signature::of(one.eax);
    let name = match cpuid(0x8000_0000).eax {
        most if most >= 0x8000_0004 => {
            let parts = [0x8000_0002, 0x8000_0003, 0x8000_0004].map(cpuid);
            text(&parts.iter().flat_map(|p| [p.eax, p.ebx, p.ecx, p.edx]).collect::<Vec<_>>())
        }
        _ => String::new(),
    };
    // CPUID leaf 7: edx bit 24 of its first part, eax bit 21 of its second (Intel SDM volume 2A, CPUID).
    let mut extensions = Vec::new();
    if zero.eax >= 7 && cpuid(7).edx >> 24 & 1 == 1 {
        extensions.push("amx_tile".to_owned());
        if cpuid(7).eax >= 1 && cpuid_of(7, 1).eax >> 21 & 1 == 1 {
            extensions.push("amx_fp16".to_owned());
        }
    }
    // CPUID leaf 1, ecx bit 31: reserved to hypervisors; their leaves begin at 0x4000_0000.
    let hypervisor = (one.ecx >> 31 == 1).then(|| {
        let leaf = cpuid(0x4000_0000);
        match text(&[leaf.ebx, leaf.ecx, leaf.edx]) {
            empty if empty.is_empty() => "unnamed".to_owned(),
            named => named,
        }
    });
    Processor {
        isa: "x86-64".into(),
        vendor: text(&[zero.ebx, zero.edx, zero.ecx]),
        name,
        family: signature.family,
        model: signature.model,
        stepping: signature.stepping,
        extensions,
        hypervisor,
        ..Processor::default()
    }
}

/// Family, model and stepping out of CPUID leaf 1 (Intel SDM volume 2A, CPUID; AMD64 APM volume 3, appendix E).
#[cfg(target_arch = "x86_64")]
#[derive(Debug, PartialEq, Eq)]
struct Signature {
    family: u32,
    model: u32,
    stepping: u32,
}

#[cfg(target_arch = "x86_64")]
impl Signature {
    fn of(eax: u32) -> Self {
        let (base, extended) = (eax >> 8 & 0xf, eax >> 20 & 0xff);
        let family = if base == 0xf { base + extended } else { base };
        let high = if base == 0xf || base == 6 { (eax >> 16 & 0xf) << 4 } else { 0 };
        Self { family, model: high | (eax >> 4 & 0xf), stepping: eax & 0xf }
    }
}

#[cfg(target_arch = "aarch64")]
fn identity() -> Processor {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|t| t.trim_matches(['\0', '\n', ' ']).to_owned());
    let midr = read("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1")
        .and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok())
        .unwrap_or(0);
    // Nothing on Arm says for certain that there is no hypervisor: these are the places where one shows itself.
    let hypervisor = ["/sys/hypervisor/type", "/proc/device-tree/hypervisor/compatible"].iter().find_map(|p| read(p));
    let product = read("/sys/class/dmi/id/sys_vendor").filter(|v| ["QEMU", "Amazon EC2", "Xen"].contains(&v.as_str()));
    Processor {
        isa: "aarch64".into(),
        vendor: implementer(midr >> 24 & 0xff).into(),
        name: part(midr >> 24 & 0xff, midr >> 4 & 0xfff).into(),
        model: (midr >> 4 & 0xfff) as u32,
        stepping: (midr & 0xf) as u32,
        hypervisor: hypervisor.or(product),
        ..Processor::default()
    }
}

/// Implementers of MIDR_EL1 (Arm ARM, D23.2; Linux arch/arm64/include/asm/cputype.h).
#[cfg(target_arch = "aarch64")]
fn implementer(code: u64) -> &'static str {
    match code {
        0x41 => "Arm",
        0x48 => "HiSilicon",
        0x4e => "NVIDIA",
        0x51 => "Qualcomm",
        0x61 => "Apple",
        0xc0 => "Ampere",
        _ => "unknown",
    }
}

/// Parts of Arm's own design (Linux arch/arm64/include/asm/cputype.h).
#[cfg(target_arch = "aarch64")]
fn part(implementer: u64, part: u64) -> &'static str {
    match (implementer, part) {
        (0x41, 0xd08) => "Cortex-A72",
        (0x41, 0xd0c) => "Neoverse N1",
        (0x41, 0xd40) => "Neoverse V1",
        (0x41, 0xd49) => "Neoverse N2",
        (0x41, 0xd4f) => "Neoverse V2",
        _ => "unnamed part",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_processor_names_itself() {
        let found = processor();
        assert!(["x86-64", "aarch64"].contains(&found.isa.as_str()), "{found:?}");
        assert!(!found.vendor.is_empty() && found.cpus >= 1 && found.memory_bytes > 1 << 20, "{found:?}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn signatures_are_read_as_the_manuals_say() {
        // Zen 3 (5900X), Skylake (E3-1240 v5), Zen 5 (EPYC): family and model as Linux prints them.
        let read = |eax| (Signature::of(eax).family, Signature::of(eax).model, Signature::of(eax).stepping);
        assert_eq!(read(0x00a2_0f10), (25, 33, 0));
        assert_eq!(read(0x0005_06e3), (6, 94, 3));
        assert_eq!(read(0x00b0_0f21), (26, 2, 1));
    }
}
