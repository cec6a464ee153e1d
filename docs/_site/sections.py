"""Docstrings as the site shows them: "Call arguments" is a section like "Args"."""

import griffe


class CallArguments(griffe.Extension):
    """Reads the arguments of a layer's call, which a class docstring gives, as a list of parameters."""

    def on_class(self, *, cls: griffe.Class, **kwargs) -> None:
        """Name the section as griffe knows it."""
        if cls.docstring:
            cls.docstring.value = cls.docstring.value.replace("Call arguments:", "Other Args: Call arguments:")
