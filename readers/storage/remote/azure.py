"""Azure Blob Storage: accounts, containers and credentials, out of URLs and environment variables.

obstore itself reads ``AZURE_STORAGE_ACCOUNT_NAME``, ``AZURE_STORAGE_ACCOUNT_KEY``, ``AZURE_STORAGE_SAS_TOKEN``,
``AZURE_STORAGE_TOKEN`` and those of service principals and managed identities. The names that Azure's command
line uses, and its connection strings, are added here. Format of connection strings:
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
"""A variable of Azure's command line -> obstore's variable, which comes first, and obstore's setting."""
_CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
_PARTS = {
    "accountname": "account_name",
    "accountkey": "account_key",
    "sharedaccesssignature": "sas_key",
    "blobendpoint": "endpoint",
}
_FABRIC = ".fabric.microsoft.com"


def azure_settings(
    root: str, endpoint: str | None, given: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the name of a container, and the settings of the store that it lies in.

    Args:
        root: Of a URL: ``container``, or ``container@account.dfs.core.windows.net``.
        endpoint: URL of a server that is not Azure's own, or None.
        given: Settings that the caller gave; they come first.

    Raises:
        SourceError: The connection string in the environment is none, or no account is named.
    """
    container, _, host = root.partition("@")
    found: dict[str, Any] = _of_environment()
    if host:
        account = host.partition(".")[0]
        if found.get("account_name", account) != account:
            found = {}  # the environment tells of another one
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


def _of_environment() -> dict[str, Any]:
    found = _parsed(os.environ.get(_CONNECTION, ""))
    for name, (before, setting) in _NAMES.items():
        if os.environ.get(name) and not os.environ.get(before):
            found[setting] = os.environ[name]
    return found


def _parsed(text: str) -> dict[str, Any]:
    """Take a connection string apart; an empty one tells nothing."""
    pairs = [part.partition("=") for part in text.split(";") if part.strip()]
    told = {name.strip().lower(): value for name, _, value in pairs}
    found = {_PARTS[name]: value for name, value in told.items() if name in _PARTS}
    if text and "account_name" not in found and "endpoint" not in found:
        raise SourceError(
            f"the environment variable {_CONNECTION} names no account: set it to "
            "AccountName=...;AccountKey=..., or unset it"
        )
    suffix = told.get("endpointsuffix", "core.windows.net")
    if "endpoint" not in found and suffix != "core.windows.net":
        found["endpoint"] = f"https://{found['account_name']}.blob.{suffix}"
    if "account_name" not in found and "endpoint" in found:
        host = found["endpoint"].partition("://")[2]
        found["account_name"] = host.partition(".")[0]
    return found
