"""A study that records its program."""

import os
import platform
import pty
import select
import shutil
import sys
import time
from pathlib import Path

from mmulab.study.plan import DEFAULT_POLICIES

ENDLESS = "while :; do :; done"


# Without QEMU nothing can be recorded; test_record.py has what is said then.
if shutil.which(f"qemu-{platform.machine()}") is not None:

    def test_ctrl_c_keeps_the_recording_and_says_how_to_study_it(tmp_path: Path) -> None:
        """Pressed on a terminal, where the program hears it too."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(tmp_path)
            args = ["study", "--machines", "zen3-5900x", "--set", "core.base_cpi=2", "--", "sh", "-c", ENDLESS]
            os.execve(sys.executable, [sys.executable, "-m", "mmulab", *args], {**os.environ, "TERM": "dumb"})
        said, start, pressed = b"", time.monotonic(), False
        while time.monotonic() - start < 300:
            # Once something was recorded.
            recording = tmp_path / "study-sh" / "trace.mmt"
            if not pressed and recording.exists() and recording.stat().st_size > 10_000:
                os.write(terminal, b"\x03")
                pressed = True
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    part = os.read(terminal, 1 << 16)
                except OSError:
                    break
                if not part:
                    break
                said += part
        _, status = os.waitpid(pid, 0)
        text = said.decode()
        assert os.waitstatus_to_exitcode(status) == 130, text
        policies = ",".join(DEFAULT_POLICIES)
        again = f"mmulab study study-sh/trace.mmt --machines zen3-5900x --policies {policies}"
        assert f"study what was recorded with: {again} --set core.base_cpi=2" in text
        assert [p.name for p in (tmp_path / "study-sh").iterdir()] == ["trace.mmt"]
