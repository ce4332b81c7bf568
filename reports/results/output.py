"""Result output: writes page, JSON, JUnit XML and summary, prints, and exits."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ..cli.options import ResultFiles, results_written, write_json, write_page
from .model import Result
from .terminal import print_result


def write_result_and_exit(
    result: Result,
    *,
    json_file: str | None,
    page: Path | None = None,
    junit: Path | None = None,
    summary: Path | None = None,
    drawn: Sequence[Path] = (),
    verbose: bool = False,
    files: ResultFiles | None = None,
) -> NoReturn:
    """page: the directory of the report. files: collects write errors."""
    files, paths, document = files or ResultFiles(), list(drawn), result.document
    if page is not None:
        from ..html.render import render_page  # only pages need the template engine

        with files.writing(), results_written("--out"):
            report = write_page(render_page(result), page)
            paths.append(report)
            if isinstance(document, dict):
                document = {**document, "report": str(report)}
    with files.writing():
        write_json(json_file, document)
    if junit is not None:
        from .junit import write_junit

        with files.writing(), results_written("--junit"):
            write_junit(junit, result)
    if summary is not None:
        from .annotations import print_annotations
        from .markdown import append_summary

        with files.writing(), results_written("--summary"):
            append_summary(summary, result)
        print_annotations(result)
    print_result(result, json_file, paths, verbose=verbose)
    files.exit(result.exit_code)
