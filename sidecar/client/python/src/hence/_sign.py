"""Signatures of requests: RFC 9421 with Ed25519, and the Content-Digest of RFC 9530. It needs the package cryptography."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from .errors import HenceError

# Headers that mean something to a sidecar, besides those that begin with one of STARTS.
BINDS = {"idempotency-key", "if-match", "if-none-match", "content-type", "content-encoding", "content-digest",
         "last-event-id"}
STARTS = ("hence-", "x-sbus-", "mcp-")


class Signer:
    """Signs requests with the private key in a file, as `hence keys new` makes it."""

    def __init__(self, path: str):
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
        except ImportError as e:
            raise HenceError("signing requests needs the package cryptography: pip install 'hence-client[signed]'") from e
        with open(path, "rb") as f:
            if os.fstat(f.fileno()).st_mode & 0o077 and os.name == "posix" and os.fstat(f.fileno()).st_uid == os.geteuid():
                raise HenceError(f"the key file {path} is open to others: run chmod 600 {path}")
            key = load_pem_private_key(f.read(), None)
        if not isinstance(key, Ed25519PrivateKey):
            raise HenceError(f"the key in {path} is not one of Ed25519: hence keys new makes one")
        self._key = key
        raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.keyid = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()

    def sign(self, method: str, base: str, target: str, headers: Mapping[str, str], body: bytes | None) -> dict[str, str]:
        """The headers of one try, with its signature. target is the path with the query, under the address base."""
        out = dict(headers)
        if body:
            out["Content-Digest"] = "sha-256=:" + base64.b64encode(hashlib.sha256(body).digest()).decode() + ":"
        path, _, query = target.partition("?")
        values = {"@method": method, "@authority": authority(base), "@path": path, "@query": "?" + query}
        bound = {name.lower(): value.strip() for name, value in out.items()
                 if name.lower() in BINDS or name.lower().startswith(STARTS)}
        values.update(sorted(bound.items()))
        covered = " ".join(f'"{name}"' for name in values)
        params = (f'({covered});created={int(time.time())};nonce="{secrets.token_urlsafe(24)}";keyid="{self.keyid}"'
                  ';alg="ed25519";tag="hence"')
        text = "".join(f'"{name}": {value}\n' for name, value in values.items()) + f'"@signature-params": {params}'
        signed = base64.b64encode(self._key.sign(text.encode())).decode()
        return {**out, "Signature-Input": "hence=" + params, "Signature": f"hence=:{signed}:"}


def authority(base: str) -> str:
    """Host of an address, in lower case, without the port that its scheme has anyway."""
    parts = urlsplit(base)
    host = (parts.hostname or "").lower()
    if ":" in host:
        host = f"[{host}]"
    usual = 443 if parts.scheme == "https" else 80
    return host if parts.port in (None, usual) else f"{host}:{parts.port}"
