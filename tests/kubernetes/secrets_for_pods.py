"""Secrets of a job in directories, which are updated as the kubelet does."""

import os
import pathlib
import secrets
import shutil
import ssl
import subprocess
import tempfile


def _openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Authority:
    """A certificate authority."""

    def __init__(self, name, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                 f"/CN={name}", "-keyout", str(self.folder / "ca.key"), "-out",
                 str(self.folder / "ca.crt"))
        self.certificate = (self.folder / "ca.crt").read_text()

    def issue(self, role):
        """Returns a new certificate and key for a role."""
        request, extensions, key, out = (
            str(self.folder / name)
            for name in ("request", "extensions", "key", "certificate"))
        pathlib.Path(extensions).write_text(
            f"subjectAltName=DNS:{role}.tributary\n")
        _openssl("req", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={role}",
                 "-keyout", key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-days", "1", "-CA",
                 str(self.folder / "ca.crt"), "-CAkey",
                 str(self.folder / "ca.key"), "-CAcreateserial", "-extfile",
                 extensions, "-out", out)
        return pathlib.Path(out).read_text(), pathlib.Path(key).read_text()


class SecretFolder:
    """A mounted Secret: each file is a link to ..data/FILE, and ..data is a
    link to the directory of the current version, replaced by a rename."""

    def __init__(self, path, user):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True)
        self.path.chmod(0o755)
        self.user = user

    def publish(self, files):
        version = pathlib.Path(tempfile.mkdtemp(prefix="..", dir=self.path))
        version.chmod(0o755)
        for name, text in files.items():
            file = version / name
            file.write_text(text)
            file.chmod(0o440)
            os.chown(file, 0, self.user)
        old = self.path / "..data"
        previous = old.resolve() if old.exists() else None
        (self.path / "..data_tmp").symlink_to(version.name)
        (self.path / "..data_tmp").rename(old)
        for name in files:
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")
        if previous is not None:
            shutil.rmtree(previous)


class Secrets:
    """The Secrets tributary-server-tls, tributary-worker-tls, tributary-token.
    """

    ROLES = ("server", "worker")

    def __init__(self, folder, user):
        self.folders = {name: SecretFolder(folder / name, user)
                        for name in (*self.ROLES, "token")}
        self.old = Authority("old", folder / "old-authority")
        self.new = Authority("new", folder / "new-authority")
        self.tokens = [secrets.token_hex(16) for _ in range(2)]
        self.authorities = self.old.certificate
        self.renew()
        self._publish_tokens(self.tokens[:1])

    def tls_folder(self, role):
        return self.folders[role].path

    @property
    def token_folder(self):
        return self.folders["token"].path

    # Certificates.

    def renew(self):
        self._issue(self.old)

    def trust_new_authority(self):
        self.authorities = self.old.certificate + self.new.certificate
        self._publish_certificates()

    def renew_by_new(self):
        self._issue(self.new)

    def forget_old_authority(self):
        self.authorities = self.new.certificate
        self._publish_certificates()

    def _issue(self, authority):
        self.issued = {role: authority.issue(role) for role in self.ROLES}
        self._publish_certificates()

    def _publish_certificates(self):
        for role in self.ROLES:
            certificate, key = self.issued[role]
            self.folders[role].publish({"ca.pem": self.authorities,
                                        f"{role}.pem": certificate,
                                        f"{role}-key.pem": key})

    # Tokens.

    def accept_new_token(self):
        self._publish_tokens(self.tokens)

    def send_new_token(self):
        self._publish_tokens(self.tokens[::-1])

    def forget_old_token(self):
        self._publish_tokens(self.tokens[1:])

    def _publish_tokens(self, tokens):
        self.folders["token"].publish({"token": "\n".join(tokens) + "\n"})

    # What a peer sees.

    def served_certificate(self, address):
        return ssl.get_server_certificate((address, 29400))

    def refusal_of_old_token(self, address):
        """Returns the code with which a server refuses the old token."""
        import grpc  # pylint: disable=import-outside-toplevel
        certificate, key = self.issued["worker"]
        credentials = grpc.ssl_channel_credentials(
            self.authorities.encode(), key.encode(), certificate.encode())
        with grpc.secure_channel(
                f"{address}:29400", credentials,
                [("grpc.ssl_target_name_override", "server.tributary")]
        ) as channel:
            try:
                channel.unary_unary("/tributary.Rendezvous/GetStatus")(
                    b"", timeout=10,
                    metadata=[("authorization", f"Bearer {self.tokens[0]}")])
                return "accepted"
            except grpc.RpcError as error:
                return str(error.code())
