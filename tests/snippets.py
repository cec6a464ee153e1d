"""The code blocks of a Markdown page, and a process that runs them in order.

Every fence names its language. `python` and `sh` blocks run, those of a page one after the other: Python in one
namespace, shell under `bash -euo pipefail`, all in a folder that looks like a fresh clone. A block with a `title` is
written to a file of that name instead. Comments of their own line directly above a fence, which a reader does not see,
say what differs in a test:

    <!-- not run: why not; who tests it -->
    <!-- run with: words of the block -> words that take less time -->      (any number of lines)
    <!-- then: Python that must hold afterwards -->
"""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

FENCE = re.compile(r"^```(?P<info>[^`\n]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"<!-- (?P<kind>not run|run with|then): (?P<text>(?:(?!-->).)*?) -->\n?\Z", re.DOTALL)
RUN = ("python", "sh")
NOT_CODE = ("text", "js", "cpp", "html", "json", "yaml")


@dataclasses.dataclass
class Block:
    """A fenced block and what the comments above it say."""

    line: int
    """Of its first line of code in the page, from 1."""
    language: str
    title: str | None
    code: str
    not_run: str | None = None
    then: str | None = None
    changes: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def as_tested(self) -> str:
        """The code with its changes."""
        code = self.code
        for words, others in self.changes:
            if words not in code:
                raise ValueError(f"`run with` needs words of the block. Received: {words!r}, block: {self.code}")
            code = code.replace(words, others)
        return code


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a page, in order."""
    return [_block(text, match) for match in FENCE.finditer(text)]


def _block(text, match):
    language, _, rest = match["info"].partition(" ")
    title = re.fullmatch(r'title="([\w./-]+)"', rest.strip())
    block = Block(text.count("\n", 0, match.start("body")) + 1, language, title and title[1], match["body"])
    above = text[: match.start()]
    while mark := MARK.search(above):
        above = above[: mark.start()]
        if mark["kind"] == "run with":
            words, _, others = mark["text"].partition(" -> ")
            block.changes.insert(0, (words, others))
        else:
            setattr(block, mark["kind"].replace(" ", "_"), mark["text"])
    return block


def main(page: Path, address: str, grpc_address: str) -> None:
    """Run a page's blocks in the current folder; where they name the server's usual addresses, others are meant."""
    sys.path.insert(0, "")
    namespace = {"__name__": "__main__"}
    for block in blocks(page.read_text()):
        if block.language not in RUN or block.not_run:
            continue
        code = block.as_tested().replace("127.0.0.1:8000", address).replace("127.0.0.1:8001", grpc_address)
        if block.title:
            Path(block.title).write_text(code)
        elif block.language == "sh":
            subprocess.run(["bash", "-euo", "pipefail", "-c", code], check=True)
        else:
            exec(compile("\n" * (block.line - 1) + code, str(page), "exec"), namespace)
        if block.then:
            exec(compile("\n" * (block.line - 1) + block.then, str(page), "exec"), namespace)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
