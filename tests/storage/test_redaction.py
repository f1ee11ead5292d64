"""No password reaches what is printed, logged, raised or shown, however its URL is spelled."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.engine import settings
from onceflow.errors import OnceflowError, StorageError
from onceflow.storage import blob_urls, obstore_errors, redaction
from onceflow.storage.postgres.journal import PostgresJournal

PASSWORD = "hunter2"

MALFORMED = [
    f"postgresql:/u:{PASSWORD}@host/db",
    f"postgresql:u:{PASSWORD}@host/db",
    f"postgres:///u:{PASSWORD}@host/db",
    f"postgresql//u:{PASSWORD}@host/db",
    f"u:{PASSWORD}@host/db",
    f"host=h user=u password={PASSWORD} dbname=d",
    f"password='{PASSWORD}'",
    f"postgresql://u:a@{PASSWORD}@host/db",
    f"postgresql://u:a/{PASSWORD}@host/db",
    f"postgresql://u:12/{PASSWORD}@host/db",
    f"postgresql://u:{PASSWORD}%@host/db",
    f"postgresql://u:%zz{PASSWORD}@host/db",
    f"postgresql://u:{PASSWORD}",
    f"postgresql://u:{PASSWORD}host/db",
    f"postgresql://host/db?{PASSWORD}",
    f"postgresql://host/db?password=a={PASSWORD}",
    f"postgresql://host/db?password=a&{PASSWORD}",
    f"postgresql://u:\u2100{PASSWORD}@ho\u2100st:x/db",
    f"mysql://u:{PASSWORD}@host/db",
]

WELL_FORMED = [
    f"postgresql://u:{PASSWORD}@host/db",
    f"postgres://u:{PASSWORD}@host:5432,other:5433/db?sslmode=disable",
    f"postgresql://u:a%40{PASSWORD}@[::1]:5432/db",
    f"postgresql://u:a#b?{PASSWORD}@host/db",
    f"postgresql://host/db?user=u&password={PASSWORD}",
    f"postgresql://host/db?user=u&sslpassword={PASSWORD}&application_name=a@b",
    f"postgresql://u%3A{PASSWORD}@host/db",
    f"postgresql://host/db%3Fpassword%3D{PASSWORD}",
    f"postgresql://:{PASSWORD}@/db",
    f"postgresql://u:[{PASSWORD}@host/db",
]


@pytest.mark.parametrize("url", MALFORMED)
def test_a_journal_that_is_no_url_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(OnceflowError, match="PostgreSQL") as caught:
        settings.find(journal=url)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("url", WELL_FORMED)
def test_a_journal_is_accepted_and_shown_without_its_password(url: str) -> None:
    found = settings.find(journal=url)
    assert found.journal == url
    assert PASSWORD not in redaction.redacted(url)
    assert PASSWORD not in repr(found)
    assert PASSWORD not in repr(list(found.__rich_repr__()))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@host:1/db?x=y", "postgresql://u@host:1/db"),
        ("postgresql://u@host/db", "postgresql://u@host/db"),
        ("postgres://h1:1,[::1]:2/db", "postgres://h1:1,[::1]:2/db"),
        ("postgresql:///db", "postgresql:///db"),
        ("postgresql:/u:p@host/db", "postgresql:…"),
        ("postgresql://u:p@x@host/db", "postgresql://…"),
        ("password=p", "a text without a scheme (…)"),
    ],
)
def test_as_much_is_shown_as_is_certain(url: str, shown: str) -> None:
    assert redaction.redacted(url) == shown


@given(
    st.text("abz19:/?#[]@%!$&'()*+,;= .\u2100", max_size=8),
    st.text("abz19:/?#[]@%!$&'()*+,;= .\u2100", max_size=8),
    st.sampled_from(["postgresql://", "postgresql:/", "postgres:", "", "//"]),
    st.booleans(),
)
def test_whatever_is_around_a_password_in_front_of_a_host_it_is_not_shown(
    before: str, after: str, scheme: str, encoded: bool
) -> None:
    separator = "%3A" if encoded else ":"
    url = f"{scheme}u{separator}{before}{PASSWORD}{after}@host/db"
    assert PASSWORD not in redaction.redacted(url)
    said = ""
    try:
        said = repr(settings.find(journal=url))
    except OnceflowError as error:
        said = "".join(traceback.format_exception(error))
    assert PASSWORD not in said


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:%zz{PASSWORD}@host/db",
        f"postgresql://host/db?{PASSWORD}",
        f"postgresql://host/db?{PASSWORD}=x",
        f"host=h password='{PASSWORD}",
        f"host=h {PASSWORD}",
    ],
)
def test_what_libpq_quotes_of_a_url_is_not_told(url: str) -> None:
    with pytest.raises(StorageError, match="does not understand") as caught:
        PostgresJournal(url)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", ["home", "workers", "lease", "backend", "trusted_owners", "durability"])
@pytest.mark.parametrize("value", [f"postgresql://u:{PASSWORD}@host/db", [f"host=h password={PASSWORD}", 3]])
def test_a_url_that_is_given_to_another_setting_is_not_quoted(name: str, value: Any) -> None:
    with pytest.raises(OnceflowError, match=f"'{name}'") as caught:
        settings.find(**{name: value})
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("value", [[f"postgresql://u:{PASSWORD}@host/db"], {"url": PASSWORD}, 3])
@pytest.mark.parametrize("name", ["journal", "blobs"])
def test_what_is_no_text_is_not_quoted(name: str, value: Any) -> None:
    with pytest.raises(OnceflowError, match=r"type (list|dict|int)") as caught:
        settings.find(**{name: value})
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"s3://key:{PASSWORD}@bucket/prefix",
        f"s3:/key:{PASSWORD}@bucket/prefix",
        f"s3:key:{PASSWORD}@bucket",
        f"s3//key:{PASSWORD}@bucket",
        f"s3://key:a/{PASSWORD}@bucket/prefix",
        f"s3://key:a?{PASSWORD}@bucket/prefix",
        f"s3://key:{PASSWORD}",
        f"s3://key/{PASSWORD}@bucket",
        f"s3://[{PASSWORD}@bucket",
        f"s3://\u2100{PASSWORD}@bucket",
        f"abfss://container:{PASSWORD}@account.dfs.core.windows.net/x",
        f"s3://bucket?secret_access_key={PASSWORD}",
        f"s3://bucket?password%3D{PASSWORD}",
        f"az://container?sig={PASSWORD}",
        f"s3://bucket?X-Amz-Signature={PASSWORD}",
        f"s3://bucket?endpoint=https://u:{PASSWORD}@minio",
        f"s3://bucket?proxy_url=http%3A%2F%2Fu%3A{PASSWORD}%40proxy",
    ],
)
def test_credentials_in_the_url_of_a_place_for_blobs_are_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(OnceflowError) as caught:
        settings.find(blobs=url)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url",
    [
        "s3://my.bucket-1/prefix/deep?region=eu&skip_signature=true",
        "abfss://container@account.dfs.core.windows.net/x",
        "az://container/x?account_name=a&azure_authority_id=t",
        "file:///mnt/me@work/blobs",
    ],
)
def test_urls_without_credentials_are_taken(url: str) -> None:
    assert blob_urls.check(url) == url


def test_what_an_object_store_says_is_told_without_logins_and_signatures() -> None:
    error = Exception(f"error for https://u:{PASSWORD}@minio/bucket/key?X-Amz-Signature={PASSWORD} : refused")
    assert obstore_errors.said(error) == "error for https://minio/bucket/key : refused"
