"""What the commands' options have in common: their types, and options that several commands share."""

import argparse
import json
import re
import textwrap


class Help(argparse.HelpFormatter):
    """Help that does not break names at their hyphens."""

    def _fill_text(self, text, width, indent):
        lines = textwrap.wrap(" ".join(text.split()), width - len(indent), break_on_hyphens=False)
        return textwrap.indent("\n".join(lines), indent)


def positive(text):
    """A positive integer, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer. Received: {text!r}")
    return int(text)


def span(text):
    """A range "A:B" of seeds, for argparse."""
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise argparse.ArgumentTypeError(f"must be A:B with A < B, such as 0:5. Received: {text!r}")
    return range(int(first), int(end))


def json_object(text):
    """A JSON object as a dict, for argparse."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"must be a JSON object, such as '{{\"g\": 9.81}}'. Received: {text!r}")
    return value


def with_equals(argv):
    """The words of a command with "--option -1,2" as "--option=-1,2", which argparse would take for an option."""
    words: list[str] = []
    for word in argv:
        if re.match(r"-\.?\d", word) and words and re.fullmatch(r"--[a-z-]+", words[-1]):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def add_env_kwargs(parser, text="arguments of the environment"):
    """Add the option for arguments of an environment: None without it."""
    parser.add_argument("--env-kwargs", type=json_object, metavar="JSON", help=f"{text}, as a JSON object")


def add_zoo(parser):
    """Add the option that names a zoo."""
    parser.add_argument("--zoo", metavar="DIR", help="another zoo directory, for a name")


def add_ray(parser):
    """Add the option that sends runs to a cluster: None without it, "" without an address."""
    parser.add_argument(
        "--ray",
        type=_address,
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="train on the Ray cluster at HOST:PORT, ray://HOST:PORT, auto or local (a new one); without an address "
        "that of RAY_ADDRESS, or one on this machine; the current directory must be on a path that all nodes share",
    )


def _address(text):
    """An address of a Ray cluster, for argparse, which would take a name that follows for one."""
    if text not in ("", "auto", "local") and ":" not in text:
        raise argparse.ArgumentTypeError(f"must be HOST:PORT, ray://HOST:PORT, auto or local. Received: {text!r}")
    return text
