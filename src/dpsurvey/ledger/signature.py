"""Signatures: the head of a ledger, signed with a key file (Ed25519), so that others can check who vouched for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadValue, NotFound
from ..text.writing import check_place, write_file
from .entry import canonical
from .file import read_beside

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

NEVER = "choose another name; a key is never overwritten"


def new_signing_key(path: str | os.PathLike[str]) -> Path:
    """Write a new private key, which only its owner can read, and its public key beside it (.pub); gives the public one."""
    ed25519, serialization = _library()
    target, key = Path(path), ed25519.Ed25519PrivateKey.generate()
    public = target.with_name(target.name + ".pub")
    for place in (target, public):
        check_place(place, hint=NEVER)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_file(target, private, private=True, hint=NEVER)
    return write_file(public, key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo), hint=NEVER)


def message(stamp: Mapping[str, Any]) -> bytes:
    """What is signed: which ledger, how many entries, and the hash of the last."""
    return canonical({"ledger": stamp["id"], "count": stamp["count"], "head": stamp["head"]}).encode()


def signed(stamp: Mapping[str, Any], key_file: str | os.PathLike[str]) -> dict[str, Any]:
    """The body of a signature's entry."""
    ed25519, serialization = _library()
    try:
        key: Ed25519PrivateKey = serialization.load_pem_private_key(_read(key_file), password=None)
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise ValueError
    except (ValueError, TypeError):
        raise BadValue(
            "this is not an Ed25519 private key", given=os.fspath(key_file), hint="dpsurvey ledger sign --new-key"
        ) from None
    return {
        "count": stamp["count"],
        "head": stamp["head"],
        "signature": key.sign(message(stamp)).hex(),
        "key": _raw(key.public_key()),
    }


def is_signed(stamp: Mapping[str, Any], signature: str, public_key: str) -> bool:
    """Whether a signature belongs to a stamp and to the owner of a public key (as hexadecimal digits)."""
    from cryptography.exceptions import InvalidSignature

    ed25519, _ = _library()
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(bytes.fromhex(signature), message(stamp))
    except (InvalidSignature, ValueError):
        return False
    return True


def read_public_key(path: str | os.PathLike[str]) -> str:
    """A public key file as hexadecimal digits."""
    ed25519, serialization = _library()
    try:
        key: Ed25519PublicKey = serialization.load_pem_public_key(_read(path))
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise ValueError
    except (ValueError, TypeError):
        raise BadValue("this is not an Ed25519 public key", given=os.fspath(path)) from None
    return _raw(key)


def _raw(key: Ed25519PublicKey) -> str:
    _, serialization = _library()
    return str(key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex())


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        return read_beside(path)
    except OSError:
        raise NotFound(
            f"there is no key file {os.fspath(path)!r}", hint="dpsurvey ledger sign --new-key makes a pair: KEY, KEY.pub"
        ) from None


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise NotFound("signatures need cryptography", hint="pip install 'dpsurvey[sign]'") from None
    return ed25519, serialization
