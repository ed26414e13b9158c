"""One part of a split model as a process on loopback, for the tests beside this file and bench/split."""

import re
import signal
import subprocess
import time


class PartProcess:
    """`pergola serve` of a part, once it is ready. `url` is where it answers frames, `http_url` where it answers HTTP, if
    it does; what it says afterwards comes on process.stderr."""

    def __init__(self, pergola, *args):
        start = time.monotonic()
        self.process = subprocess.Popen([str(each) for each in (pergola, "serve", "--frame-port", 0, *args)],
                                        stderr=subprocess.PIPE, text=True)
        said = ""
        for line in self.process.stderr:
            said += line
            if line == "Ready.\n":
                break
        else:
            self.process.wait()
            raise AssertionError(said)
        self.ready_ms = 1000 * (time.monotonic() - start)
        self.url = re.search(r"pergola://\S+", said).group(0)
        http = re.search(r"http://\S+", said)
        self.http_url = http and http.group(0)

    def stop(self, number=signal.SIGTERM):
        """The exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=10)
        self.process.stderr.close()
        return code


def port_of(url):
    return int(url.rsplit(":", 1)[1])
