"""A server on this machine that speaks S3, for the tests of archives in an object store."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection


@contextmanager
def object_store(bucket: str) -> Iterator[str]:
    """Serve S3 with a bucket; yield the URL. What earlier servers of this process got is still
    there, so buckets need names of their own."""
    # Each worker imports all tests, and importing these takes a tenth of that.
    from moto.server import ThreadedMotoServer  # noqa: PLC0415
    from s3fs import S3FileSystem  # noqa: PLC0415

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        connection = HTTPConnection(host, port)
        connection.request("PUT", f"/{bucket}")
        assert connection.getresponse().status == 200
        connection.close()
        yield f"http://{host}:{port}"
    finally:
        # The memory of a client goes by the URL, and not by the environment.
        S3FileSystem.clear_instance_cache()
        server.stop()
