"""Explain refused requests: the reason, and the settings that help."""

import errno
import os
import re

from readers.storage.remote.options import AZURE, HUB, StorageOptions

ENDPOINTS = ("AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST", "AZURE_STORAGE_ENDPOINT", "HF_ENDPOINT")
"""Environment variables that name a server other than the provider's own."""
STATUS = re.compile(r"status code: (\d{3})\s?([A-Za-z' -]*)")
"""Finds the HTTP status in the text of obstore's error."""
_CODE = re.compile(r"<Code>([A-Za-z.]{1,60})</Code>")
"""Finds the error code in the XML that S3 and Azure answer."""
# Hosts that give credentials to machines of a provider; they are asked if the environment has no credentials.
_CREDENTIAL_HOSTS = ("169.254.", "fd00:ec2::", "metadata.google.internal", "computeMetadata")
_SERVER = re.compile(r"\b(https?)://(?:[^/\s?,@]*@)?([^/\s?,]+)")
"""Finds scheme and host of the server in the text of obstore's error, without a password."""
_SILENCES = (
    ("dns error", "its name is not known to DNS"),
    ("ConnectionRefused", "it refused the connection"),
    ("invalid peer certificate", "TLS failed, its certificate is not trusted"),
    ("InvalidMessage", "TLS failed, it does not speak HTTPS"),
    ("tcp connect error", "no connection in time, as of a wrong address or behind a firewall"),
    ("TimedOut", "it took the connection and gave no answer in time"),
    ("error sending request", "there was no connection, or it broke off"),
)
"""Pairs of words in the text of obstore's error, and what they mean; the first match counts."""
_PASSING = ("408", "425", "429")
"""HTTP statuses of the class 4xx that may go away: a time-out, a request that came too early, too many requests."""
# Parts of advice: the variables that obstore reads for each provider.
_AWS = (
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN where they are temporary)"
)
_GOOGLE = "GOOGLE_APPLICATION_CREDENTIALS, the path of a service account's JSON file"
_AZURE = "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN (or those of a service principal, AZURE_CLIENT_ID, ...)"
_PUBLIC = "or give anonymous=True for public data"
_NEW_TOKEN = f"get new temporary credentials and set {_AWS}"
_REGION = "set AWS_REGION to the region of the bucket"
# Advice for each error code of S3 or Azure.
_ADVICE = {
    "ExpiredToken": f"the session token has expired: {_NEW_TOKEN}",
    "ExpiredTokenException": f"the session token has expired: {_NEW_TOKEN}",
    "TokenRefreshRequired": f"the session token has expired: {_NEW_TOKEN}",
    "InvalidToken": f"the session token is none of this store: {_NEW_TOKEN}, or unset AWS_SESSION_TOKEN",
    "InvalidAccessKeyId": f"the store does not know the key in AWS_ACCESS_KEY_ID: set {_AWS}, {_PUBLIC}",
    "SignatureDoesNotMatch": "AWS_SECRET_ACCESS_KEY is not the secret of AWS_ACCESS_KEY_ID: set both again",
    "AuthorizationHeaderMalformed": f"the request was signed for another region: {_REGION}",
    "PermanentRedirect": f"the bucket lies in another region: {_REGION}",
    "IllegalLocationConstraintException": f"the bucket lies in another region: {_REGION}",
    "AuthenticationFailed": f"the key, token or signature is not that of the account: set {_AZURE} again",
    "AuthorizationFailure": "let this machine through the account's firewall, or get a token for its blobs",
    "AuthorizationPermissionMismatch": (
        "give the identity the role Storage Blob Data Reader, or the token the permissions r and l"
    ),
    "NoAuthenticationInformation": f"no credentials were found: set {_AZURE}, or give anonymous=True for public data",
    "PublicAccessNotPermitted": f"the account is not public: set {_AZURE}",
    "RequestTimeTooSkewed": "the clock of this machine is wrong: set it",
}


def refusal(
    error: Exception, scheme: str, *, reached: bool = False, writing: bool = False
) -> OSError | None:
    """Return the error to raise if the store refused a request for good; None for other errors, which may go away.

    Args:
        error: The exception from obstore.
        scheme: Scheme of the URL.
        reached: Whether the store has answered this process before, so that credentials exist.
        writing: Whether the request was a write, which needs more permissions than reading.

    Returns:
        An OSError: EACCES if credentials may help, ENOENT if the bucket does not exist, else EINVAL; strerror gives the
        answer of the store, and the settings that help.
    """
    refused = _refusal(error, scheme, reached)
    if refused is None or not writing:
        return refused
    answer = for_destination(str(refused.strerror))
    for leave in ("read and list", "read"):
        answer = answer.replace(f"leave to {leave} the", "leave to write to the")
    return type(refused)(refused.errno, answer.replace("Blob Data Reader", "Blob Data Contributor"))


def unanswered(error: Exception, options: StorageOptions) -> str:
    """Return a text with the server that did not answer, what happened, and where its address is set; "" if it answered.

    Args:
        error: The exception from obstore.
        options: Options of the connection.
    """
    text = str(error)
    server = _SERVER.search(text)
    happened = next((words for part, words in _SILENCES if part in text), None)
    if server is None or happened is None or STATUS.search(text):
        return ""
    place = (
        server[2] if ":" in server[2] else f"{server[2]}:{'80' if server[1] == 'http' else '443'}"
    )
    named = [name for name in ENDPOINTS if server[2] in os.environ.get(name, "")]
    named = ["endpoint="] if options.endpoint else named
    advice = f"; correct {named[0]}, which names it, or start it" if named else ""
    return f"{server[1]}://{place} does not answer ({happened}){advice}"


def for_destination(reason: str) -> str:
    """Return a reason without the advice to use anonymous access, since writing needs credentials."""
    return reason.replace(f", {_PUBLIC}", "")


def _refusal(error: Exception, scheme: str, reached: bool) -> OSError | None:
    text = str(error).partition("\n\nDebug source")[0]  # which repeats the text
    found = STATUS.search(text)
    status = found[1] if found else ""
    if "redirect without LOCATION" in text:
        return PermissionError(errno.EACCES, _ADVICE["PermanentRedirect"])
    if any(host in text for host in _CREDENTIAL_HOSTS):
        if reached:
            return None
        return PermissionError(errno.EACCES, _missing_credentials(scheme))
    refused = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
    if not refused and (status[:1] != "4" or status in _PASSING):
        return None
    answer = f"{status} {found[2].strip()}" if found else "no reason given"
    code = _CODE.search(text)
    if code and code[1] in ("NoSuchBucket", "ContainerNotFound"):
        return FileNotFoundError(
            errno.ENOENT, "there is no such bucket or container: correct its name"
        )
    if code and code[1] in _ADVICE:
        return PermissionError(errno.EACCES, f"{answer}, {code[1]}: {_ADVICE[code[1]]}")
    if code:
        answer = f"{answer}, {code[1]}"
    if not refused and status not in ("400", "401", "403"):
        return OSError(errno.EINVAL, f"the server refused the request ({answer})")
    return PermissionError(
        errno.EACCES, f"access was refused ({answer}): {_usual_advice(scheme, status)}"
    )


def _missing_credentials(scheme: str) -> str:
    if scheme == "gs":
        return f"no credentials were found: set {_GOOGLE}, {_PUBLIC}"
    if scheme in AZURE:
        return f"no credentials were found: set {_AZURE}, {_PUBLIC}"
    return (
        f"no credentials were found (files in ~/.aws are not read): set {_AWS}, {_PUBLIC}; "
        "aws configure export-credentials prints them"
    )


def _usual_advice(scheme: str, status: str) -> str:
    """Return the advice that helps most often, for refusals without a reason."""
    if scheme == "gs":
        return f"give the account leave to read the bucket, or set {_GOOGLE}, {_PUBLIC}"
    if scheme in AZURE:
        return f"give the identity leave to read and list the container, or set {_AZURE}, {_PUBLIC}"
    if scheme == HUB:
        return "log in (hf auth login) or set HF_TOKEN, and ask for access on its page where it is gated"
    if scheme != "s3":
        return "get a new URL where it is signed, or put USER:PASSWORD@ before the host"
    if status == "400":
        return f"{_NEW_TOKEN} where they have expired, and {_REGION}"
    return f"give the account leave to read and list the bucket, or set {_AWS}, {_PUBLIC}"
