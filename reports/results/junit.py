"""JUnit XML writer, for Jenkins, GitLab and GitHub Actions.

    testsuites
      testsuite       one for each test case
        properties    counts of the test case
        testcase      with the same name
          failure     a broken promise, with the events before it and the command to reproduce it
          error       an error of the harness, or a nondeterministic seed
          skipped     work that was not done, or a mutant that may survive
          system-out  the claim of the scenario

The text of a failure contains all details, because GitLab shows only this text. Properties belong to the suite, because
all readers accept them there. All attributes conform to the schema of Jenkins' xUnit plugin (junit-10.xsd).
"""

import re
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from .model import Case, Result

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot represent, not even escaped."""
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def write_junit(file: Path, result: Result) -> None:
    root = Element("testsuites", name=f"tornlog {result.command}")
    root.extend(map(_suite_element, result.cases))
    for sum_of in ("tests", "failures", "errors"):
        root.set(sum_of, str(sum(int(suite.get(sum_of, "0")) for suite in root)))
    seconds = sum(one.seconds for one in result.cases) if result.seconds is None else result.seconds
    root.set("time", f"{seconds:.3f}")
    file.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def _suite_element(case: Case) -> Element:
    time = f"{case.seconds:.3f}"
    suite = Element("testsuite", name=_printable(case.name), tests="1", time=time)
    for tag, attribute in _COUNTED.items():
        suite.set(attribute, str(int(any(one.tag == tag for one in case.outcomes))))
    listed = SubElement(suite, "properties")
    for name, value in case.properties.items():
        SubElement(listed, "property", name=_printable(name), value=_printable(str(value)))
    element = SubElement(suite, "testcase", name=_printable(case.name), classname="tornlog", time=time)
    for one in case.outcomes:
        outcome = SubElement(element, one.tag, type=_printable(one.kind), message=_printable(one.message))
        outcome.text = _printable(one.text)
    if case.system_out:
        SubElement(element, "system-out").text = _printable(case.system_out)
    return suite


def _printable(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
