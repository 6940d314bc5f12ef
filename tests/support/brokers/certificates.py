"""Certificates for tests: an authority of our own, and what goes wrong with certificates."""

import datetime
import ssl
from pathlib import Path
from typing import Final

import trustme

LONG_AGO: Final = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)


class Authority:
    """An authority, its file `ca`, and files of the certificates that it issues."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder: Final = folder
        self._authority: Final = trustme.CA()
        self.ca: Final = folder / f"{name}.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))

    def issue(
        self, *identities: str, name: str = "server", cn: str | None = None, expired: bool = False
    ) -> Path:
        """Issue a certificate; return the file of it and its key together."""
        until = LONG_AGO + datetime.timedelta(days=9) if expired else None
        since = LONG_AGO if expired else None
        issued = self._authority.issue_cert(
            *identities, common_name=cn, not_before=since, not_after=until
        )
        path = self._folder / f"{name}.pem"
        path.write_bytes(b"")
        path.chmod(0o600)
        issued.private_key_and_cert_chain_pem.write_to_path(str(path))
        return path

    def trusting(self, certificate: Path | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts this authority, and shows a certificate."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context
