"""Templates of `init`: checks by kind of program, a client, a test and a CI job.

The marks are << >> and <% %>, because Python and workflows of GitHub use braces.
"""

import json
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        undefined=StrictUndefined,
        autoescape=False,  # the files are programs, not pages
        keep_trailing_newline=True,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    environment.filters["py"] = _python_literal
    return environment


def _python_literal(value: str | list[str]) -> str:
    """Return a text or a list of texts as Python code. JSON with escapes is valid Python for these."""
    return json.dumps(value)


def render(name: str, **values: object) -> str:
    """Return the text of a file. name: of the template, such as log.py."""
    return _environment().get_template(f"{name}.jinja").render(values)
