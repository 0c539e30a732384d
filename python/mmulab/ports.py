"""Ports of this computer for servers that are started here and reached from nowhere else."""

import socket

from mmulab import UserError

LOOPBACK = "127.0.0.1"


def free_port(wanted: int | None = None) -> int:
    """A port nobody listens on. Raises UserError if the wanted one is taken."""
    with socket.socket() as one:
        try:
            one.bind((LOOPBACK, wanted or 0))
        except OSError as error:
            raise UserError(
                f"port {wanted} of {LOOPBACK}: {error.strerror}\nhint: leave --port out, and a free one is taken"
            ) from error
        return int(one.getsockname()[1])
