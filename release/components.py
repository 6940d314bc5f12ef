"""The bill of materials: the components of the broker and its extras, as CycloneDX in JSON.

    python -m release.components FOLDER

Everything in it is from the lock, docs/licences.md and pyproject.toml, so the same sources give the
same bytes. Groups for building and testing are not shipped and not in it.
"""

import sys
from pathlib import Path
from typing import Final
from uuid import UUID, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from release import licences, lockfile
from release.lockfile import Locked

SPACE: Final = UUID("4f1d2c0a-7f55-5c3b-9b1e-0d8f6a1c2e77")
"""Serial numbers are drawn from it and the contents, so they are the same for the same contents."""


def shipped(locked: list[Locked]) -> tuple[list[Locked], set[str]]:
    """Return the pins of the broker and all extras on Linux, and the names of the broker's."""
    project = lockfile.project()
    names = {
        each: [lockfile.name_of(line) for line in lockfile.requirements([each], project)]
        for each in (lockfile.BROKER, "all")
    }
    required = {pin.name for pin in lockfile.part(locked, names[lockfile.BROKER])}
    everything = lockfile.part(locked, {*names[lockfile.BROKER], *names["all"]})
    return [pin for pin in everything if licences.on_linux(pin)], required


def component(pin: Locked, licence: str, *, required: bool) -> Component:
    """Return the component of a pin."""
    purl = PackageURL("pypi", name=pin.name, version=pin.version)
    files = [
        HashType(alg=HashAlgorithm.SHA_256, content=each.partition(":")[2]) for each in pin.hashes
    ]
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        bom_ref=purl.to_string(),
        purl=purl,
        scope=ComponentScope.REQUIRED if required else ComponentScope.OPTIONAL,
        licenses=[LicenseFactory().make_from_string(licence)],
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.DISTRIBUTION,
                url=XsUri(purl.to_string()),
                hashes=[each],
            )
            for each in files
        ],
        properties=[Property(name="daybook:marker", value=pin.marker)] if pin.marker else [],
    )


def bill() -> Bom:
    """Return the bill of materials of this version."""
    project = lockfile.project()["project"]
    purl = PackageURL("pypi", name=project["name"], version=project["version"])
    broker = Component(
        name=project["name"], version=project["version"], type=ComponentType.APPLICATION,
        bom_ref=purl.to_string(), purl=purl, description=project["description"],
        licenses=[LicenseFactory().make_from_string(project["license"])],
    )  # fmt: skip
    pins, required = shipped(lockfile.read())
    known = {row.package: row.licence for row in licences.listed()}
    made = {pin: component(pin, known[pin.name], required=pin.name in required) for pin in pins}
    bom = Bom(components=made.values())
    bom.metadata.component = broker
    direct = {
        lockfile.name_of(line)
        for line in lockfile.requirements([lockfile.BROKER, "all"], lockfile.project())
    }
    bom.register_dependency(broker, [made[pin] for pin in pins if pin.name in direct])
    for pin, parent in made.items():
        children = [one for one in pins if pin.name in one.required_by]
        bom.register_dependency(parent, [made[one] for one in children])
    return bom


def written(bom: Bom) -> str:
    """Return the bill as JSON, without the time and with a number that its contents decide."""
    bom.metadata.timestamp = None  # type: ignore[assignment]
    bom.serial_number = SPACE
    outputter = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    bom.serial_number = uuid5(SPACE, outputter.output_as_string(indent=2))
    return (
        make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2) + "\n"
    )


def write(folder: Path) -> None:
    """Write the bill into a folder, with the name that it has in a release."""
    version = lockfile.project()["project"]["version"]
    (folder / f"daybook-{version}.cdx.json").write_text(written(bill()), "utf-8")


def main() -> None:
    """Write the bill into the named folder."""
    (folder,) = sys.argv[1:]
    write(Path(folder))


if __name__ == "__main__":
    main()
