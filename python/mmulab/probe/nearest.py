"""The shipped machine that stands nearest to a processor: by vendor, then family and model.

It supplies what timing cannot find out: ways, replacement, instruction TLBs, energy. Families are CPUID's; parts of
Arm's instruction set are MIDR_EL1's.
"""

from collections.abc import Sequence
from typing import Any

# Intel models of family 6 (Intel SDM volume 4, table 2-1). The first two sets are before Skylake. Sunny Cove: Ice Lake
# servers, then Ice, Tiger and Rocket Lake clients. Golden Cove: Sapphire Rapids, Alder and Raptor Lake. Redwood Cove:
# Granite Rapids.
_SANDY_BRIDGE = {0x2A, 0x2D, 0x3A, 0x3E}
_HASWELL = {0x3C, 0x3F, 0x45, 0x46, 0x3D, 0x47, 0x4F, 0x56}
_SUNNY_COVE = {0x6A, 0x6C, 0x7D, 0x7E, 0x8C, 0x8D, 0xA7}
_GOLDEN_COVE = {0x8F, 0x97, 0x9A, 0xB7, 0xBA, 0xBF}
_EMERALD_RAPIDS = {0xCF}
_REDWOOD_COVE = {0xAD, 0xAE}
# AMD: Zen, Zen+ and Zen 2 are family 17h; Zen 3 and Zen 4 19h; Zen 5 1Ah.
_ZEN_TO_ZEN2, _ZEN3_AND_ZEN4, _ZEN5 = 0x17, 0x19, 0x1A
# Parts (Linux, arch/arm64/include/asm/cputype.h): of Arm; AMPERE1 and AMPERE1A of Ampere.
_NEOVERSE_N1, _NEOVERSE_V1, _NEOVERSE_V2 = 0xD0C, 0xD40, 0xD4F
_AMPERE_ONE = {0xAC3, 0xAC4}
# Graviton4 and Grace have the same core. Their second cache levels differ: 2 MB and 1 MB.
_L2_OF_GRACE = 1 << 20


def _is_zen4(model: int) -> bool:
    """Which models of family 19h are Zen 4 (Linux, arch/x86/kernel/cpu/amd.c)."""
    return 0x10 <= model <= 0x1F or 0x60 <= model <= 0xAF


def nearest(processor: dict[str, Any], caches: Sequence[dict[str, Any]] = ()) -> tuple[str, str]:
    """Its name, and how near it is, in words for the machine file.

    `caches` are those that the kernel lists, where that is known (`mmulab.probe.system.caches`).
    """
    if processor["isa"] == "aarch64":
        return _arm(processor["vendor"], processor["model"], caches)
    return _x86(processor)


def _arm(vendor: str, part: int, caches: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Of processors with Arm's instruction set."""
    if vendor == "Ampere":
        return "ampereone-a192", "the same core" if part in _AMPERE_ONE else "another core of the vendor"
    if vendor != "Arm":
        return "neoverse-n1", f"another vendor: no machine of {vendor or 'this vendor'} is shipped"
    if part == _NEOVERSE_V1:
        return "neoverse-v1-graviton3", "the same core"
    if part == _NEOVERSE_V2:
        second = [cache["bytes"] for cache in caches if cache["level"] == 2]
        if second == [_L2_OF_GRACE]:
            return "neoverse-v2-grace", "the same core, with an L2 cache of 1 MB"
        return "neoverse-v2-graviton4", "the same core" if second else "the same core; its L2 cache is not known"
    return "neoverse-n1", "the same core" if part == _NEOVERSE_N1 else "another core of the vendor"


def _x86(processor: dict[str, Any]) -> tuple[str, str]:
    """Of processors with x86-64's."""
    vendor, family, model = processor["vendor"], processor["family"], processor["model"]
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
        if family == 6 and model in _EMERALD_RAPIDS:
            return "emeraldrapids-xeon8592", "same generation"
        if family == 6 and model in _GOLDEN_COVE:
            return "sapphirerapids-xeon8480", "same generation"
        # A hypervisor may hide the model, but not what programs need to know.
        extensions = processor.get("extensions", ())
        if "amx_fp16" in extensions:
            return "graniterapids-xeon6985", "by its AMX-FP16 instructions: the model is none that is known"
        if "amx_tile" in extensions:
            return "sapphirerapids-xeon8480", "by its AMX instructions: the model is none that is known"
        if family == 6 and model in _SUNNY_COVE:
            return "icelake-xeon8380", "same generation"
        return "skylake-e3-1240v5", "same vendor; another generation, unless the processor is a Skylake"
    return "skylake-e3-1240v5", f"another vendor: no machine of {vendor or 'this vendor'} is shipped"
