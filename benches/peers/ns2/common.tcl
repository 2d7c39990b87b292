# common.tcl - what the five ns-2 peer scenarios s1.tcl .. s5.tcl share:
# arguments, clocks, the dumbbell network, counting packet-hops, the result line.
# It runs nothing by itself.
#
# Run a scenario:   ns s1.tcl [key=value ...]
#   count=0|1           0 (default): the timed run; packet_hops is null.
#                       1: counters on every link; packet_hops is exact, and the
#                       times are those of the slower run. The simulation is
#                       deterministic and the same in both.
#   scheduler=NAME      Calendar (default), Splay, Heap, List
#   duration=SECONDS    simulated time, if not the scenario's own
#   queue=fifo|drr      s5.tcl only
#
# Result: one line of JSON.
#   build_s        wall-clock seconds from the start of this script to the first
#                  event (nodes, links, agents, routes, resets)
#   run_s          wall-clock seconds of the event loop
#   packet_hops    packets whose last bit reached the next node over a link
#   throughput_mbps  what the receivers' applications got (TCP: payload; UDP:
#                  whole packets), in Mb/s over the simulated time
#   peak_rss_kb    peak resident memory of the process
# Tcl 8.6 offers no monotonic clock; run_peers.py checks these two times against
# one.
#
# For ns-2's benefit: only the packet headers in use are kept (packets get
# smaller), no trace is written, and the dumbbells use manual routing (default
# routes and one table) instead of all-pairs shortest paths.

set buildStart [clock microseconds]

remove-all-packet-headers
add-packet-header IP TCP Flags RTP

array set opt {count 0 scheduler Calendar duration "" queue fifo}
foreach a $argv {
    if {![regexp {^(count|scheduler|duration|queue)=(.*)$} $a - key value]} {
        puts stderr "unknown argument: $a"
        exit 2
    }
    set opt($key) $value
}

# The simulator. Must come first in a scenario.
proc new-simulator {duration} {
    global ns opt
    set ns [new Simulator]
    $ns use-scheduler $opt(scheduler)
    if {$opt(duration) == ""} { set opt(duration) $duration }
    return $ns
}

# TCP as ns-2.35 does it by default, except for what a scenario sets:
# SYN exchange, initial window 2, tick 10 ms, RTO floor 200 ms, Limited Transmit.
# With useHeaders_ true (the default) a data packet is packetSize_ + 40 bytes on
# the wire and the SYN is 40; ACKs are TCPSink's packetSize_ = 40.
proc tcp-defaults {payload window ecn} {
    Agent/TCP set packetSize_ $payload
    Agent/TCP set useHeaders_ true
    Agent/TCP set tcpip_base_hdr_size_ 40
    Agent/TCP set timestamps_ false
    Agent/TCP set window_ $window
    Agent/TCP set ecn_ $ecn
    Agent/TCPSink set packetSize_ 40
    Agent/TCPSink/DelAck set interval_ 100ms
}

# Dumbbell with one host pair per flow, TCP NewReno from left to right, sinks
# with delayed ACKs. Flow i starts at i * `spacing` seconds.
#   accessRate/accessDelay  host links
#   rate/delay/queue/limit  the link between the two routers; the reverse
#                           direction and the host links never drop
proc tcp-dumbbell {flows accessRate accessDelay rate delay queue limit spacing} {
    global ns tcp
    $ns rtproto Manual
    set a [$ns node]
    set b [$ns node]
    Queue set limit_ 100000
    $ns simplex-link $a $b $rate $delay $queue
    $ns simplex-link $b $a $rate $delay DropTail
    $ns queue-limit $a $b $limit
    for {set i 0} {$i < $flows} {incr i} {
        set left [$ns node]
        set right [$ns node]
        $ns duplex-link $left $a $accessRate $accessDelay DropTail
        $ns duplex-link $b $right $accessRate $accessDelay DropTail
        [$left get-module Manual] add-route-to-adj-node -default $a
        [$right get-module Manual] add-route-to-adj-node -default $b
        [$a get-module Manual] add-route-to-adj-node $left
        [$b get-module Manual] add-route-to-adj-node $right
        set tcp($i) [new Agent/TCP/Newreno]
        set sink [new Agent/TCPSink/DelAck]
        $ns attach-agent $left $tcp($i)
        $ns attach-agent $right $sink
        $ns connect $tcp($i) $sink
        set ftp [new Application/FTP]
        $ftp attach-agent $tcp($i)
        $ns at [expr {$i * $spacing}] "$ftp start"
    }
    [$a get-module Manual] add-route-to-adj-node -default $b
    [$b get-module Manual] add-route-to-adj-node -default $a
}

# Payload bits acknowledged by all TCP flows. Packet 0 is the SYN, so the highest
# acknowledged number is the count of data packets.
proc tcp-payload-bits {payload} {
    global tcp
    set packets 0.0
    foreach i [array names tcp] {
        set acked [$tcp($i) set ack_]
        if {$acked > 0} { set packets [expr {$packets + $acked}] }
    }
    return [expr {$packets * $payload * 8}]
}

# Counts every packet that comes out of any link: one counter behind each link's
# far end, all feeding one monitor.
proc count-hops {} {
    global ns hopMonitor
    set hopMonitor [new QueueMonitor]
    foreach link [$ns all-links-list] {
        set snoop [new SnoopQueue/In]
        $snoop set-monitor $hopMonitor
        set ttl [$link set ttl_]
        $snoop target [$ttl target]
        $ttl target $snoop
    }
}

proc peak-rss-kb {} {
    set f [open /proc/self/status]
    set text [read $f]
    close $f
    if {[regexp {VmHWM:\s+(\d+)} $text - kb]} { return $kb }
    return null
}

# Runs the simulation. `bits` is a script that returns the bits delivered.
proc simulate {scenario bits} {
    global ns opt
    if {$opt(count)} { count-hops }
    $ns at 0.0 { set runStart [clock microseconds] }
    $ns at $opt(duration) [list finish $scenario $bits]
    $ns run
}

proc finish {scenario bits} {
    global opt buildStart runStart hopMonitor
    set now [clock microseconds]
    set hops null
    if {$opt(count)} { set hops [$hopMonitor set parrivals_] }
    puts [format {{"peer":"ns-2.35","scenario":"%s","scheduler":"%s","sim_s":%s,"counted":%s,"build_s":%.3f,"run_s":%.3f,"packet_hops":%s,"throughput_mbps":%.3f,"peak_rss_kb":%s}} \
        $scenario $opt(scheduler) $opt(duration) [expr {$opt(count) ? "true" : "false"}] \
        [expr {($runStart - $buildStart) / 1e6}] [expr {($now - $runStart) / 1e6}] \
        $hops [expr {[eval $bits] / $opt(duration) / 1e6}] [peak-rss-kb]]
    exit 0
}

# RED with ECN as scenarios 2 and 3 use it: all in packets, not gentle, `wait`.
# ns-2.35 marks while the drop probability is below mark_p_ and drops above, so
# with max_p 0.1 packets are marked between the thresholds and dropped over the
# upper one.
proc red-defaults {} {
    Queue/RED set bytes_ false
    Queue/RED set queue_in_bytes_ false
    Queue/RED set mean_pktsize_ 1040
    Queue/RED set thresh_ 100
    Queue/RED set maxthresh_ 300
    Queue/RED set q_weight_ 0.002
    Queue/RED set linterm_ 10
    Queue/RED set gentle_ false
    Queue/RED set wait_ true
    Queue/RED set adaptive_ 0
    Queue/RED set setbit_ true
}
