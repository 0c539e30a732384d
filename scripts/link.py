"""Makes the checkout's package importable in the running environment, with its `mmulab` command.

What `pip install -e .` would do, without building the engine a second time.
"""

import sys
import sysconfig
from pathlib import Path

checkout = Path(__file__).resolve().parents[1]
Path(sysconfig.get_path("purelib"), "mmulab.pth").write_text(f"{checkout / 'python'}\n", encoding="utf-8")
command = Path(sysconfig.get_path("scripts"), "mmulab")
command.write_text(f"#!{sys.executable}\nfrom mmulab.cli import main\n\nmain()\n", encoding="utf-8")
command.chmod(0o755)
