"""Carry long training runs from one machine to another: their last checkpoints, small enough for the repository.

    python benchmarks/keep_runs.py keep runs/b2-nmn-paper-s0 runs/b2-rnn-paper-s0
    python benchmarks/keep_runs.py restore

`keep` packs each run directory into `benchmarks/runs/NAME.tar.xz`: the files that `checkpoint.json` names, the curve,
the best-validated weights and the note of where the run comes from. It may be called while the run goes on. `restore`
unpacks into `runs/` what is not there or stands at an earlier update; `nmn train ... --resume` then goes on bit for
bit.
"""

import argparse
import json
import shutil
import tarfile
import tempfile
from pathlib import Path

KEPT = Path(__file__).parent / "runs"
BESIDE = ("origin.json", "curves.csv", "best.json", "best.weights.h5")
ATTEMPTS = 5


def main() -> None:
    arguments = parse_arguments()
    if arguments.command == "keep":
        for run_dir in arguments.runs:
            keep(run_dir)
    else:
        for archive in sorted(KEPT.glob("*.tar.xz")):
            restore(archive, arguments.into)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="pack run directories")
    keeping.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    restoring = commands.add_parser("restore", help="unpack all that is kept")
    restoring.add_argument("--into", type=Path, default=Path("runs"), help="directory of runs (%(default)s)")
    return parser.parse_args()


def keep(run_dir: Path) -> None:
    """Pack the last whole checkpoint of a run."""
    with tempfile.TemporaryDirectory() as temporary:
        copied = Path(temporary) / run_dir.name
        update = copy_checkpoint(run_dir, copied)
        archive = KEPT / f"{run_dir.name}.tar.xz"
        with tarfile.open(archive, "w:xz") as tar:
            for path in sorted(copied.iterdir()):
                tar.add(path, f"{run_dir.name}/{path.name}", filter=anonymous)
    print(f"{archive.name}: update {update}, {archive.stat().st_size / 1e6:.1f} MB")


def copy_checkpoint(run_dir: Path, target: Path) -> int:
    """Copy a checkpoint and what lies beside it; the run may write another one meanwhile, so try again."""
    for attempt in range(ATTEMPTS):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        try:
            index = json.loads((run_dir / "checkpoint.json").read_text())
            for name in index["sha256"]:
                shutil.copy(run_dir / name, target)
        except FileNotFoundError:
            if attempt + 1 == ATTEMPTS:
                raise
            continue
        (target / "checkpoint.json").write_text(json.dumps(index, indent=1))
        for name in BESIDE:
            if (run_dir / name).exists():
                shutil.copy(run_dir / name, target)
        return index["state"]["update"]
    raise AssertionError("not reached")


def anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same entry without the names of a machine."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def restore(archive: Path, into: Path) -> None:
    """Unpack a run, unless what is there is as far."""
    name = archive.name.removesuffix(".tar.xz")
    index = into / name / "checkpoint.json"
    with tarfile.open(archive, "r:xz") as tar:
        kept = json.load(tar.extractfile(f"{name}/checkpoint.json"))["state"]["update"]  # type: ignore[arg-type]
        present = json.loads(index.read_text())["state"]["update"] if index.exists() else -1
        if present >= kept:
            print(f"{name}: update {present} is there, update {kept} is kept; left as it is")
            return
        into.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(into / name, ignore_errors=True)
        tar.extractall(into, filter="data")
    print(f"{name}: update {kept}")


if __name__ == "__main__":
    main()
