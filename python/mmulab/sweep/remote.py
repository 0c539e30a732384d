"""Traces in stores (S3, the web and others, by fsspec): each is fetched once per computer, into a cache.

    URL --ask--> mark of the store (ETag, time, size) --cache: marks--> SHA-256 --cache: contents--> file
                                                     |                                    ^
                                                     '---- not known: fetched, hashed ----'

A file is found by the SHA-256 of its contents. So a worker, which is given that hash, asks the store only if its
computer has no such file. Processes of one computer wait for each other: one fetches, the others find the file.
"""

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from mmulab import Failure, UserError
from mmulab.extras import need, remedy
from mmulab.workloads import cache

# What stores say of an object that changes when its contents do, as their file systems call it.
MARKS = ("ETag", "etag", "Content-MD5", "Digest", "md5Hash", "LastModified", "Last-Modified", "mtime", "created")
# Packages that fsspec needs for a store. Those of the extra come with it.
PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "http": "aiohttp", "https": "aiohttp", "gs": "gcsfs", "gcs": "gcsfs"}
PACKAGES |= {"abfs": "adlfs", "az": "adlfs", "sftp": "paramiko", "ssh": "paramiko", "smb": "smbprotocol"}
EXTRA = "stores"
_OF_EXTRA = ("aiohttp", "s3fs")
# Errors of credentials, of packages that are perhaps not installed.
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError")
# Errors of a disk that is full.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_remote(name: str) -> bool:
    """Whether a trace's name is a URL."""
    return re.match(r"[a-z][a-z0-9+.-]*://", name) is not None


def local(name: str, identity: str) -> str:
    """Where this computer has a trace whose identity is known: a URL's file in the cache, else the name itself."""
    return str(fetched(name, identity)) if is_remote(name) else name


def fetched(url: str, identity: str | None = None) -> Path:
    """The file of a URL, from the cache or from its store. Its folder is named by the SHA-256 of its contents.

    `identity`: the SHA-256 that is wanted. A store that has other contents now gives those: compare. Raises UserError
    if there is no such object, no package for the store, or no permission; Failure if it could not be fetched.
    """
    if identity is not None and (path := _kept(identity, url)):
        return path
    key = sha256(url.encode()).hexdigest()
    try:
        with _locked(key):
            # Another process may have fetched it meanwhile.
            if identity is not None and (path := _kept(identity, url)):
                return path
            files, place, about = _asked(url)
            mark = _mark(url, about)
            known = _marked(mark) if mark else None
            if known and (path := _kept(known, url)):
                return path
            path = _fetch(url, files, place, about, root() / f"{key}.part")
            if mark:
                _write(root() / "marks" / mark, path.parent.name)
            return path
    except OSError as error:
        raise Failure(
            f"{root()}: {url} cannot be kept there: {error.strerror or error}\n"
            "hint: traces of stores are kept in XDG_CACHE_HOME, by default ~/.cache: give it a directory with room"
        ) from None


def root() -> Path:
    """Where fetched traces are kept."""
    return cache.home() / "traces"


def _file(identity: str, url: str) -> Path:
    """Formats and packings of traces are recognised by contents, but messages are better with a name."""
    name = PurePosixPath(urlsplit(url).path).name
    return root() / "contents" / identity / (name if name not in ("", "..") else "trace")


def _kept(identity: str, url: str) -> Path | None:
    """The file with these contents; None if it is not there or was damaged."""
    path = _file(identity, url)
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    if _hash(path, about.st_mtime_ns, about.st_size) == identity:
        return path
    path.unlink(missing_ok=True)
    return None


@lru_cache(maxsize=1024)
def _hash(path: Path, _changed: int, _size: int) -> str:
    return cache.sha256(path)


@contextmanager
def _locked(key: str) -> Iterator[None]:
    """No other process of this computer fetches it meanwhile. The lock ends with the process, however that ends."""
    path = root() / "locks" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _mark(url: str, about: dict[str, Any]) -> str | None:
    """A hash of what the store says of an object; None if nothing in it changes with the contents."""
    said = {key: str(about[key]) for key in MARKS if about.get(key)}
    if not said:
        return None
    return sha256(json.dumps([url, about.get("size"), said], sort_keys=True).encode()).hexdigest()


def _marked(mark: str) -> str | None:
    try:
        return (root() / "marks" / mark).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="ascii")
    os.replace(part, path)


def _asked(url: str) -> tuple[Any, str, dict[str, Any]]:
    """The store, the name of the object there, and what the store says of it."""
    fsspec = need("fsspec", "fsspec", f"{url}: a trace in a store", extra=EXTRA)
    protocol = url.partition("://")[0]
    if "::" in url:
        raise UserError(f"{url}: one store inside another\nhint: give the URL of the trace itself")
    if protocol not in fsspec.available_protocols():
        raise UserError(f"{url}: no store has URLs with {protocol}://\nhint: give s3://, https:// or gs://, or a file")
    try:
        files, place = fsspec.core.url_to_fs(url)
    except ImportError as error:
        package = PACKAGES.get(protocol)
        if package is None:
            raise UserError(f"{url}: {error}\nhint: fsspec needs a further package for {protocol}://") from None
        command = remedy(EXTRA) if package in _OF_EXTRA else f"pip install {package}"
        raise UserError(f"{url}: {protocol}:// needs {package}, which is not installed\nhint: {command}") from None
    except Exception as error:
        # Each store has errors of its own.
        raise _refused(url, error) from None
    try:
        # Stores that were listed before are asked anew.
        files.invalidate_cache()
        about = files.info(place)
    except Exception as error:
        raise _refused(url, error) from None
    if about.get("type") == "directory":
        raise UserError(f"{url}: a directory, not a trace\nhint: give the URL of a file in it")
    return files, place, about


def _fetch(url: str, files: Any, place: str, about: dict[str, Any], part: Path) -> Path:
    """Fetches an object into `part`, and names it by its contents once all of it is there."""
    try:
        # Errors of the cache's disk come here, and not as errors of the store.
        part.write_bytes(b"")
        try:
            files.get_file(place, str(part))
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                raise
            raise _refused(url, error) from None
        came, whole = part.stat().st_size, about.get("size")
        if whole is not None and came != whole:
            raise Failure(f"{url}: cut: {came:,} of {whole:,} bytes came\nhint: repeat the command")
        path = _file(cache.sha256(part), url)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(part, path)
        return path
    finally:
        part.unlink(missing_ok=True)


def _refused(url: str, error: Exception) -> UserError | Failure:
    """What a store's error means."""
    # fsspec's file system of the web takes whatever happens for a file that is not there.
    if isinstance(error.__cause__, Exception) and type(error.__cause__).__module__.startswith("aiohttp."):
        error = error.__cause__
    said = next(filter(None, str(error).splitlines()), type(error).__name__)
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status == 404:
        # Some repeat the name only; others say that the bucket is missing.
        more = "" if status == 404 or said.strip("'/") in url else f" ({said})"
        return UserError(f"{url}: the store has no such trace{more}\nhint: check bucket and name")
    if isinstance(error, PermissionError) or status in (401, 403) or type(error).__name__ in _NO_CREDENTIALS:
        return UserError(f"{url}: no permission: {said}\nhint: give this computer, and all workers, the credentials")
    return Failure(f"{url}: the store failed: {type(error).__name__}: {said}\nhint: repeat the command")
