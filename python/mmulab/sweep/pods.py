"""`[cluster]` of a sweep file with kind = "kubernetes": the pods that run workers, read and checked."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from mmulab import UserError
from mmulab.sweep.keys import only_known, parse_count, parse_memory

KIND = "kubernetes"
KEYS = ("kind", "image", "workers", "memory", "namespace", "python", "env", "pod", "container")
WORKERS_MAX = 10_000
# The beginning of variables for dask, by which the pods connect.
_DASK = "DASK_DISTRIBUTED__"
# Fields of a pod and of its container that are mmulab's, or of the operator's resource.
_OURS = {
    "pod": ("containers",),
    "container": ("name", "image", "command", "args", "ports", "readinessProbe", "livenessProbe"),
}


@dataclass(frozen=True)
class Pods:
    """The pods that are asked for: one for the scheduler, and one for each worker."""

    # Has Python, mmulab and distributed.
    image: str
    # Bytes of each pod.
    memory: int
    workers: int = 1
    # None: the namespace of the user's context.
    namespace: str | None = None
    # The Python of the image that has mmulab.
    python: str = "python3"
    # Environment variables of the pods.
    env: dict[str, str] = field(default_factory=dict)
    # Further fields of each pod's description and of its container's, as Kubernetes names them.
    pod: dict[str, Any] = field(default_factory=dict)
    container: dict[str, Any] = field(default_factory=dict)
    kind: str = KIND

    @property
    def total(self) -> int:
        """Workers of all pods."""
        return self.workers

    @property
    def asked(self) -> str:
        """What is asked for, for people."""
        return f"{self.workers:,} pods with a worker each"


def parse_pods(table: dict[str, Any], place: str) -> Pods:
    """`[cluster]` of a sweep file. Raises UserError for what is wrong in it."""
    only_known(table, KEYS, place, "a cluster of kind kubernetes")
    memory = parse_memory(table, place, "pod")
    image = table.get("image")
    if not isinstance(image, str) or not re.fullmatch(r"[\w./:@-]+", image, re.ASCII):
        raise UserError(f'{place}.image: {image!r}: give a container image with mmulab, as "registry/mmulab:1"')
    namespace = table.get("namespace")
    if namespace is not None and not (
        isinstance(namespace, str) and re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", namespace)
    ):
        raise UserError(f"{place}.namespace: {namespace!r}: give small letters, digits and -")
    python = table.get("python", "python3")
    if not isinstance(python, str) or not python or "$" in python:
        raise UserError(f'{place}.python: {python!r}: give the image\'s Python, as "/opt/mmulab/bin/python"')
    return Pods(
        image,
        memory,
        workers=parse_count(table, "workers", WORKERS_MAX, place),
        namespace=namespace,
        python=python,
        env=_env(table.get("env", {}), f"{place}.env"),
        pod=_fields(table, "pod", place),
        container=_fields(table, "container", place),
    )


def _env(given: Any, place: str) -> dict[str, str]:
    if not isinstance(given, dict):
        raise UserError(f"{place}: {given!r} is not a table\nhint: write [cluster.env]")
    for name, value in given.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or not isinstance(value, str):
            raise UserError(f'{place}: {name} = {value!r}: give variables with texts, as HOME = "/tmp"')
        if name.startswith(_DASK):
            raise ours(f"{place}.{name}")
    return dict(given)


def _fields(table: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    given = table.get(key, {})
    if not isinstance(given, dict):
        raise UserError(f"{place}.{key}: {given!r} is not a table\nhint: write [cluster.{key}]")
    for name in given:
        if name in _OURS[key]:
            raise ours(f"{place}.{key}.{name}")
    try:
        json.dumps(given, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"{place}.{key}: {error}\nhint: give texts, numbers, lists and tables") from None
    return given


def ours(place: str) -> UserError:
    """The refusal of a field that mmulab sets."""
    return UserError(f"{place}: mmulab sets it\nhint: leave it out")
