"""What CI services read, whatever it is about: documents of JUnit XML, and blocks of Markdown.

JUnit XML, as Jenkins, GitLab and GitHub's actions read it:

    testsuites
      testsuite       one for each test case
        properties    what was counted
        testcase      of the same name
          failure, error, skipped, system-out

What is said of a failure is all in its text: GitLab shows nothing else. Properties belong to the suite, where every
reader takes them, and there are no attributes beyond those of the schema of Jenkins' xUnit plugin (junit-10.xsd).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, however they are written."""
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}
_FENCE = "~~~~"


def write_junit(file: Path, document: Element) -> None:
    """Write a document, and the directories it is to be in."""
    file.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.indent(document)
    ElementTree.ElementTree(document).write(file, encoding="utf-8", xml_declaration=True)


def document_element(name: str, suites: Iterable[Element]) -> Element:
    """Return test suites as one document, with their sums."""
    root = Element("testsuites", name=name)
    root.extend(suites)
    for sum_of in ("tests", "failures", "errors"):
        root.set(sum_of, str(sum(int(suite.get(sum_of, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    return root


def case_element(name: str, seconds: float) -> Element:
    """Return a test case."""
    return Element("testcase", name=name, classname="tornlog", time=f"{seconds:.3f}")


def add_outcome(case: Element, tag: str, kind: str, message: str, text: str) -> None:
    """Add to a test case what became of it. tag: failure, error or skipped."""
    SubElement(case, tag, type=printable_text(kind), message=printable_text(message)).text = printable_text(text)


def suite_element(case: Element, properties: Mapping[str, object]) -> Element:
    """Return the test suite of one case."""
    suite = Element("testsuite", name=case.get("name", ""), tests="1", time=case.get("time", ""))
    for tag, attribute in _COUNTED.items():
        suite.set(attribute, str(min(1, len(case.findall(tag)))))
    listed = SubElement(suite, "properties")
    for name, value in properties.items():
        SubElement(listed, "property", name=printable_text(name), value=printable_text(str(value)))
    suite.append(case)
    return suite


def printable_text(text: str) -> str:
    """Return a text with a sign for each character that XML cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def fenced(text: str) -> Iterator[str]:
    """Yield the lines of a block that Markdown shows as it is."""
    yield from ("", _FENCE, text, _FENCE, "")
