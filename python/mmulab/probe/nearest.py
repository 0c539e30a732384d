"""The shipped machine that stands nearest to a processor: by vendor, then family and model.

It supplies what timing cannot find out: ways, replacement, instruction TLBs, energy. Families are CPUID's.
"""

from typing import Any

# Intel models of family 6 (Intel SDM volume 4, table 2-1): before Skylake; Sapphire and Emerald Rapids, Alder and
# Raptor Lake; Granite Rapids.
_SANDY_BRIDGE = {0x2A, 0x2D, 0x3A, 0x3E}
_HASWELL = {0x3C, 0x3F, 0x45, 0x46, 0x3D, 0x47, 0x4F, 0x56}
_GOLDEN_COVE = {0x8F, 0xCF, 0x97, 0x9A, 0xB7, 0xBA, 0xBF}
_REDWOOD_COVE = {0xAD, 0xAE}
# AMD: Zen, Zen+ and Zen 2 are family 17h; Zen 3 and Zen 4 19h; Zen 5 1Ah.
_ZEN_TO_ZEN2, _ZEN3_AND_ZEN4, _ZEN5 = 0x17, 0x19, 0x1A


def _is_zen4(model: int) -> bool:
    """Which models of family 19h are Zen 4 (Linux, arch/x86/kernel/cpu/amd.c)."""
    return 0x10 <= model <= 0x1F or 0x60 <= model <= 0xAF


def nearest(processor: dict[str, Any]) -> tuple[str, str]:
    """Its name, and how near it is, in words for the machine file."""
    vendor, family, model = processor["vendor"], processor["family"], processor["model"]
    if processor["isa"] == "aarch64":
        same = processor["name"] == "Neoverse N1"
        return "neoverse-n1", "the same core" if same else "the only Armv8 machine there is"
    if vendor in ("AuthenticAMD", "HygonGenuine"):
        if family <= _ZEN_TO_ZEN2:
            return "zenplus-2700x", "same family" if family == _ZEN_TO_ZEN2 else "a later family"
        if family == _ZEN3_AND_ZEN4 and not _is_zen4(model):
            return "zen3-5900x", "same generation"
        if family == _ZEN3_AND_ZEN4:
            return "zen4-epyc9004", "same generation"
        return "zen5-epyc9005", "same generation" if family == _ZEN5 else "an earlier family"
    if vendor == "GenuineIntel":
        if family == 6 and model in _SANDY_BRIDGE:
            return "sandybridge", "same generation"
        if family == 6 and model in _HASWELL:
            return "haswell-mix-baseline", "same generation"
        if family == 6 and model in _REDWOOD_COVE:
            return "graniterapids-xeon6985", "same generation"
        if family == 6 and model in _GOLDEN_COVE:
            return "sapphirerapids-xeon8480", "same generation"
        # A hypervisor may hide the model, but not what programs need to know.
        extensions = processor.get("extensions", ())
        if "amx_fp16" in extensions:
            return "graniterapids-xeon6985", "by its AMX-FP16 instructions: the model is none that is known"
        if "amx_tile" in extensions:
            return "sapphirerapids-xeon8480", "by its AMX instructions: the model is none that is known"
        return "skylake-e3-1240v5", "same vendor; another generation, unless the processor is a Skylake"
    return "skylake-e3-1240v5", f"another vendor: no machine of {vendor or 'this vendor'} is shipped"
