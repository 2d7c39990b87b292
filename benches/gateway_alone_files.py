"""What `gateway_alone.py` fills in: scenarios of both worlds, and the configuration of a gateway."""

# Both stand in a copy of the folder of experiments.
REAL = """
include = "_{path}.toml"
duration = "{seconds}s"
# Then daemons are up and have learned, and downloads have begun.
warmup = "{warm_up}s"

[nodes]
hosts = ["A", "B", "C", "D"]
routers = ["L", "R", "P", "Q"]
real = ["A", "B", "C", "D"]

[defaults.link]
rate = "1Gbit"
queue = {{ kind = "droptail", limit = "20000p" }}

# The links of the sites are in these delays.
[links]
A-L = {{ between = ["A", "L"], delay = "1ms" }}
R-B = {{ between = ["R", "B"], delay = "1ms" }}
C-P = {{ between = ["C", "P"], delay = "1ms" }}
P-Q = {{ between = ["P", "Q"], rate = "{{mbit}}Mbit", delay = "{{way}}" }}
Q-D = {{ between = ["Q", "D"], delay = "1ms" }}
# Nobody goes here, but real hosts must reach each other.
L-P = {{ between = ["L", "P"], delay = "1s" }}

[links.path]
between = ["L", "R"]
rate = "{{mbit}}Mbit"
delay = "{{way}}"
queue = {{ kind = "droptail", limit = "{{4 * product}}p" }}

[commands.b]
host = "B"
run = "{command} --site b"

[commands.a]
host = "A"
run = "{command} --site a"

[commands.d]
host = "D"
run = "{command} --site d"

[commands.c]
host = "C"
run = "{command} --site c"
"""
SIMULATED = """
include = ["_sites.toml", "_{path}.toml", "_kind-path.toml"]
duration = "{seconds}s"
warmup = "{warm_up}s"

[defaults.tcp]
packet = "{packet}B"
header = "{header}B"
ack = "{ack}B"

[domains.sites.mechanism]
rate_min = "100kbit"
rate_max = "1Gbit"
initial_rate = "1Mbit"
# As between rounds of a daemon.
shaper.bucket = "1ms"

[flows.ping.application]
packet = "{ping}B"
rate = "{ping_rate}bit"

[flows.web]
from = "A"
to = "B"
transport = "tcp"

[flows.web.application]
kind = "transfers"
arrivals = {{ kind = "poisson", rate = "400kbit" }}
sizes = {{ kind = "fixed", size = "20kB" }}
places = 50
"""
CONFIGURATION = """[gateway]
private_key_file = "{folder}/{site}.key"
address = ["{inner}/24"]
socket = "{folder}/{site}.sock"
user = "nobody"
mtu = {mtu}
[sites.{other}]
public_key = "{public}"
endpoint = "{outer}:{port}"
networks = ["{theirs}"]
rate = {{ floor = "100kbit", max = "1Gbit", fallback = "1Mbit" }}
"""
# Where the path changes.
SERIES = """
[record]
every = "100ms"
series = ["flows.tcp*.goodput_bps"]
"""
LATER = """
[flows."tcp{{i}}"]
start = {{ uniform = ["7s", "8s"] }}
"""
# Follows that table.
DELAYS = 'delays = ["flows.ping", "flows.narrow"]\n'
NARROW = """
[flows.narrow]
from = "A"
to = "B"
transport = "udp"
start = "21s"
stop = "40s"

[flows.narrow.application]
kind = "cbr"
packet = "{ping}B"
rate = "{ping_rate}bit"
jitter = 0.5
"""
