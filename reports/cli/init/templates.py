"""Templates of `init`: render checks, a client, a test and a CI job.

The templates use << >> and <% %>, because Python and GitHub workflows use braces.
"""

import json
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        undefined=StrictUndefined,
        autoescape=False,  # no HTML escapes, because the templates render programs
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
    """Return strings as Python code. For strings and lists of strings, escaped JSON is valid Python."""
    return json.dumps(value)


def render(name: str, **values: object) -> str:
    """name: a file name such as log.py."""
    return _environment().get_template(f"{name}.jinja").render(values)
