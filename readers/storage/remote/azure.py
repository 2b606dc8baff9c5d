"""Read accounts, containers and credentials of Azure Blob Storage from URLs and environment variables.

obstore reads ``AZURE_STORAGE_ACCOUNT_NAME``, ``AZURE_STORAGE_ACCOUNT_KEY``, ``AZURE_STORAGE_SAS_TOKEN``,
``AZURE_STORAGE_TOKEN`` and those of service principals and managed identities. This module adds the variables of Azure's
command line, and connection strings. Format of connection strings:
https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string
"""

import os
from collections.abc import Mapping
from typing import Any

from readers.sample import SourceError
from readers.storage.remote.options import require_url

_NAMES = {
    "AZURE_STORAGE_ACCOUNT": ("AZURE_STORAGE_ACCOUNT_NAME", "account_name"),
    "AZURE_STORAGE_KEY": ("AZURE_STORAGE_ACCOUNT_KEY", "account_key"),
}
"""For each variable of Azure's command line: obstore's variable, which has priority, and obstore's setting."""
_CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
"""The variable that Azure's own libraries and command line read."""
_PARTS = {
    "accountname": "account_name",
    "accountkey": "account_key",
    "sharedaccesssignature": "sas_key",
    "blobendpoint": "endpoint",
}
"""For each name in a connection string, in lower case: obstore's setting."""
_FABRIC = ".fabric.microsoft.com"
"""End of the host names of OneLake, for which obstore needs another setting."""


def azure_settings(
    root: str, endpoint: str | None, given: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the name of a container, and obstore's settings for it.

    Args:
        root: `Address.root` of a URL: ``container``, or ``container@account.dfs.core.windows.net``.
        endpoint: URL of a server other than Azure's own; None for Azure.
        given: Settings that the caller passed, which have priority.

    Raises:
        SourceError: Neither the URL nor the environment names an account, or the connection string is malformed.
    """
    container, _, host = root.partition("@")
    found: dict[str, Any] = _read_environment()
    if host:
        account = host.partition(".")[0]
        if found.get("account_name", account) != account:
            found = {}  # the environment describes another account
        found["account_name"] = account
        found["use_fabric_endpoint"] = host.endswith(_FABRIC)
    server = require_url(os.environ.get("AZURE_STORAGE_ENDPOINT"), "AZURE_STORAGE_ENDPOINT")
    if url := endpoint or server:
        found["endpoint"] = url
    found |= given
    named = "account_name" in found or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not named and not os.environ.get("AZURE_STORAGE_USE_EMULATOR"):
        raise SourceError(
            f"the container {container} belongs to no account that is named: set AZURE_STORAGE_ACCOUNT_NAME, or "
            f"write abfss://{container}@ACCOUNT.dfs.core.windows.net/PATH"
        )
    return container, found


def _read_environment() -> dict[str, Any]:
    found = _parse_connection_string(os.environ.get(_CONNECTION, ""))
    for name, (before, setting) in _NAMES.items():
        if os.environ.get(name) and not os.environ.get(before):
            found[setting] = os.environ[name]
    return found


def _parse_connection_string(text: str) -> dict[str, Any]:
    """Return obstore's settings for a connection string; an empty dict for an empty string.

    Raises:
        SourceError: The connection string names no account.
    """
    pairs = [part.partition("=") for part in text.split(";") if part.strip()]
    parts = {name.strip().lower(): value for name, _, value in pairs}
    found = {_PARTS[name]: value for name, value in parts.items() if name in _PARTS}
    if text and "account_name" not in found and "endpoint" not in found:
        raise SourceError(
            f"the environment variable {_CONNECTION} names no account: set it to "
            "AccountName=...;AccountKey=..., or unset it"
        )
    suffix = parts.get("endpointsuffix", "core.windows.net")
    if "endpoint" not in found and suffix != "core.windows.net":
        found["endpoint"] = f"https://{found['account_name']}.blob.{suffix}"
    if "account_name" not in found and "endpoint" in found:
        host = found["endpoint"].partition("://")[2]
        found["account_name"] = host.partition(".")[0]
    return found
