"""One router of rate-based back-pressure: Pazos and Gerla, section 4.2, steps 1(a) to 1(f) and 2 of the virtual source and the
three steps of the virtual destination, written from the paper and the settled ambiguities BP-1 to BP-7 of the catalogue.

Amounts are bytes of one sampling period, rates are bytes per second. Names are those of the paper. Every quantity is an exact
fraction, so that nothing here shares a rounding with another implementation.

Step 1(d) compares with `AS_i`. `over_told` is the reading in which an input has no excess as long as it offers no more than its
share of the period before, which is what its sender was told; otherwise it is the share that 1(c) just assigned.

The paper does not say when an input port begins and ends to be one of the N that contribute, nor how near to its share it is
still constrained. Both are parameters: `hold` seconds after its last packet, and `tolerance` (0 is the text). A port that
begins to contribute within a period has an equal part of the output until the period ends.
"""

from fractions import Fraction


class VirtualSource:
    """The end of an outgoing circuit: it divides what the circuit carries among the input ports."""

    def __init__(self, inputs, port, config):
        self.inputs, self.port, self.config = inputs, port, config
        self.er = Fraction(port["rate"])  # nothing was heard yet
        self.share = [Fraction(1, inputs)] * inputs  # BP-5
        self.offered = [0] * inputs
        self.last = [None] * inputs
        self.sent = 0

    def contributes(self, i, now):
        return self.last[i] is not None and now - self.last[i] < self.config["hold"]

    def on_offered(self, i, size, now):
        """What class does not matter: 1(b) to 1(d) are about Dt_i + Res_i."""
        begins = not self.contributes(i, now)
        self.offered[i] += self.on_wire(size)
        self.last[i] = now
        if begins:
            self.share[i] = Fraction(1, sum(self.contributes(k, now) for k in range(self.inputs)))

    def on_sent(self, size):
        self.sent += self.on_wire(size)

    def on_wire(self, size):
        """On a circuit AAL5 puts a trailer of 8 bytes behind a packet, and cells of 53 bytes carry 48."""
        return size if self.port["mcr"] is None else -(-(size + 8) // 48) * 53

    def on_backward_rm(self, er):
        """Not below the minimum cell rate, nor above the link's."""
        lowest = max(self.port["mcr"] or 0, self.config["lowest"])
        self.er = min(max(Fraction(er), lowest), self.port["rate"])

    def new_period(self, length, now):
        """Step 1, of the period that ends now."""
        load, self.offered = self.offered, [0] * self.inputs
        sent, self.sent = self.sent, 0
        n = [i for i in range(self.inputs) if self.contributes(i, now)]
        # BP-7: Tf_out := ER * period, or what was sent, which is the letter of the paper.
        tf = Fraction(sent) if self.config["measured"] else self.er * length
        if tf == 0 or not n:
            return  # BP-5
        # RESV_i = alpha_i * MCR_out (BP-3: "MRC_out" is MCR_out), for the ports that contribute.
        resv = Fraction(self.config["reserved"]) * (self.port["mcr"] or 0) * length / len(n)
        # (a)
        fs = max(Fraction(0), tf - resv * len(n)) / len(n)
        # (b)
        unconstrained = [i for i in n if load[i] < (1 - self.config["tolerance"]) * (fs + resv)]
        constrained = [i for i in n if i not in unconstrained]
        told, self.share = self.share, [Fraction(0)] * self.inputs
        # (c), divided by Tf (BP-1)
        if constrained:
            rest = tf - sum(load[i] for i in unconstrained) - resv * len(constrained)
            for j in constrained:
                self.share[j] = (max(Fraction(0), rest / len(constrained)) + resv) / tf
        # (d), for constrained ports only (BP-2), never below nothing (BP-6)
        for i in constrained:
            allowed = max(self.share[i], told[i]) if self.config["over_told"] else self.share[i]
            excess = load[i] - allowed * tf
            if excess > 0:
                self.share[i] = max(Fraction(0), (self.share[i] * tf - 2 * excess) / tf)
        # (e)
        for i in unconstrained:
            self.share[i] = (fs + resv) / tf

    def control_message(self, i):
        """(f) and step 2: the bandwidth available for input port i, AS_i * RM.ER."""
        return self.share[i] * self.er


class VirtualDestination:
    """The end of an incoming circuit."""

    def __init__(self):
        self.bw = {}

    def on_control_message(self, output, bandwidth):
        """Step 1; an output to which the port sends nothing has no say (None)."""
        self.bw[output] = bandwidth

    def on_forward_rm(self, er):
        """Steps 2 and 3: the rate in the cell that goes back."""
        known = [bw for bw in self.bw.values() if bw is not None]
        return min(Fraction(er), sum(known)) if known else Fraction(er)


def run(config, ports, events):
    """The answers to the questions in `events`: lists of time in nanoseconds, what happens, and its parameters.

    packet: input port (`None`: a host), output port, bytes. rm: output port, the explicit rate that came back. ask: input
    port, the explicit rate in the forward RM cell. A period begins with the first packet.
    """
    second = 1_000_000_000
    settled = config | {
        "hold": config["hold_ns"],
        "tolerance": Fraction(config["tolerance"]).limit_denominator(1000),
        "reserved": Fraction(config["reserved"]).limit_denominator(1000),
    }
    # Input 0 are all hosts; the others are the ports, each to a router.
    sources = [VirtualSource(len(ports) + 1, port, settled) for port in ports]
    destinations = [VirtualDestination() for _ in ports]
    ends, answers = None, []
    for now, what, *rest in events:
        while ends is not None and ends <= now:
            for source in sources:
                source.new_period(Fraction(config["period_ns"], second), ends)
            ends += config["period_ns"]
        if what == "packet":
            port, output, size = rest
            sources[output].on_offered(0 if port is None else port + 1, size, now)
            sources[output].on_sent(size)
            if ends is None:
                ends = now + config["period_ns"]
        elif what == "rm":
            output, er = rest
            sources[output].on_backward_rm(er)
        else:
            port, er = rest
            for output, source in enumerate(sources):
                if output != port:
                    heard = source.contributes(port + 1, now)
                    said = source.control_message(port + 1) if heard else None
                    destinations[port].on_control_message(output, said)
            answers.append(int(destinations[port].on_forward_rm(er)))
    return answers
