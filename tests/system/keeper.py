"""What systemd does for a service that it keeps descriptors for."""

import os
import socket
import threading


class Keeper:
    """What systemd does for a service with `FileDescriptorStoreMax=`: it keeps descriptors."""

    def __init__(self, folder) -> None:
        self.path = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.path.chmod(0o666)
        self.kept: list[tuple[str, int]] = []
        self.ended = threading.Event()
        self.listener: threading.Thread | None = None

    def hear(self) -> None:
        """Takes what was said."""
        self.socket.setblocking(False)
        while True:
            try:
                said, descriptors, _, _ = socket.recv_fds(self.socket, 4096, 16)
            except BlockingIOError:
                return
            fields = dict(line.split("=", 1) for line in said.decode().splitlines())
            if "FDSTOREREMOVE" in fields:
                for one in [one for one in self.kept if one[0] == fields["FDNAME"]]:
                    self.kept.remove(one)
                    os.close(one[1])
            for descriptor in descriptors:
                # Whoever is started has what it is given, and nothing besides that would keep a device.
                os.set_inheritable(descriptor, False)
                same = [os.path.sameopenfile(descriptor, kept) for _, kept in self.kept]
                # systemd compares with `kcmp`; here what is not a socket is told apart by its name.
                known = any(same) if "socket" in fields["FDNAME"] else fields["FDNAME"] in dict(self.kept)
                if known:
                    os.close(descriptor)
                else:
                    self.kept.append((fields["FDNAME"], descriptor))

    def hear_for_ever(self) -> None:
        """Takes what is said at once, as systemd does, until it is closed."""

        def listen() -> None:
            while not self.ended.wait(0.01):
                self.hear()

        self.listener = threading.Thread(target=listen)
        self.listener.start()

    def command(self, *command: str) -> list[str]:
        """`command` as it is told that descriptors are its own; see `options`."""
        return ["sh", "-c", 'export LISTEN_PID=$$; exec "$@"', "sh", *command]

    def options(self) -> dict:
        """For `subprocess.Popen`; whoever starts says `LISTEN_PID`, which is known when it is there."""
        environment = {**os.environ, "NOTIFY_SOCKET": str(self.path)}
        if not self.kept:
            return {"env": environment}
        environment["LISTEN_FDS"] = str(len(self.kept))
        environment["LISTEN_FDNAMES"] = ":".join(name for name, _ in self.kept)
        places = range(3, 3 + len(self.kept))

        def hand_over() -> None:
            beside = [os.dup(descriptor) for _, descriptor in self.kept]
            high = [os.dup2(descriptor, 100 + number) for number, descriptor in enumerate(beside)]
            for place, descriptor in zip(places, high, strict=True):
                os.dup2(descriptor, place, inheritable=True)
                os.close(descriptor)

        return {"env": environment, "preexec_fn": hand_over, "close_fds": False}

    def let_go(self) -> None:
        """Keeps nothing any more."""
        for _, descriptor in self.kept:
            os.close(descriptor)
        self.kept = []

    def close(self) -> None:
        """Ends."""
        self.ended.set()
        if self.listener is not None:
            self.listener.join()
        self.let_go()
        self.socket.close()
