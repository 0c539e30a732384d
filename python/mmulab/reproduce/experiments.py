"""All experiments, in the order of `mmulab reproduce list`. A new one is a file that declares it, and a line here."""

from typing import Any

from mmulab.reproduce.compendia import experiments as compendia
from mmulab.reproduce.elastic import experiments as elastic
from mmulab.reproduce.instruction import experiments as instruction
from mmulab.reproduce.leshy.experiments import LESHY
from mmulab.reproduce.mix import experiments as mix
from mmulab.reproduce.pte_coalescing import experiments as pte_coalescing
from mmulab.reproduce.shared.experiment import Experiment
from mmulab.reproduce.speedups.experiments import SPEEDUPS
from mmulab.reproduce.this_computer.experiments import FORECAST, MOSAICS
from mmulab.reproduce.together.experiments import TOGETHER

EXPERIMENTS: tuple[Experiment[Any], ...] = (
    pte_coalescing.TABLE,
    pte_coalescing.GROUP_SIZE,
    instruction.CHAIN,
    instruction.PROMOTION,
    instruction.SWEEP,
    instruction.SERVERS,
    instruction.EVERYTHING,
    mix.MIX_TLBS,
    mix.MIX_SETS,
    mix.GPU_TLBS,
    LESHY,
    compendia.FIGURE_15,
    compendia.THRESHOLDS,
    compendia.SPEEDUP,
    elastic.FAULT_LATENCY,
    elastic.FAULT_PATH,
    elastic.SIZES,
    elastic.SYSTEMS,
    elastic.SAMPLING,
    elastic.MIXES,
    elastic.BEYOND,
    elastic.EVERYTHING,
    TOGETHER,
    SPEEDUPS,
    FORECAST,
    MOSAICS,
)
