"""The main job: a program through many machines and policies, and what should be done about it."""

from mmulab.study.outcome import Outcome
from mmulab.study.plan import DEFAULT_POLICIES, Plan

__all__ = ["DEFAULT_POLICIES", "Outcome", "Plan"]
