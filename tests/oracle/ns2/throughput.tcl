# throughput.tcl - several flows share one bottleneck under FIFO, DRR or FQ.
# Prints what each flow got.
#
# Run:  ns throughput.tcl DISCIPLINE VARIANT WINDOW CBR
#   DISCIPLINE  DropTail | DRR | FQ
#   VARIANT     tahoe | reno | newreno | sack1   (all four TCPs are the same)
#   WINDOW      receiver's window in packets
#   CBR         0 or 1: add one UDP flow of 1 Mb/s
# Must be started in its own folder (it sources profile.tcl).
#
# Output, one line per flow:
#   flow I KIND PHASE RECEIVED GOODPUT SENT DROPS DROPS_ALL
#   KIND       tcp or cbr
#   PHASE      the sender's clock phase (see profile.tcl), - for cbr
#   RECEIVED   data packets that reached the flow's sink host in 10..100 s
#   GOODPUT    packets the sink gave to its application in order in 10..100 s
#   SENT       data packets sent in 0..100 s
#   DROPS      losses at the bottleneck in 10..100 s; DROPS_ALL: in 0..100 s
#
# Network: source host i -(10 Mb/s, i ms)- r0 -(1.5 Mb/s, 10 ms, DISCIPLINE)-
# r1 -(10 Mb/s, 1 ms)- sink host i, for i = 1, 2, 3, 4; the CBR's source is 1 ms
# away. All other queues are DropTail with limit 1000. Buffers at the bottleneck:
#   DropTail  limit_ 25: at most 24 packets wait, one more is in transmission
#   DRR       blimit_ 25000 bytes in all; over it, the oldest packet of the
#             longest queue is dropped; quantum 1000 bytes; flows are told apart
#             by source host (that is how ns-2's DRR does it)
#   FQ        one DropTail queue with limit_ 25 per flow, plus one packet per
#             flow held by the scheduler; flows are told apart by flow id

source profile.tcl

foreach {discipline variant window cbr} $argv break
set ntcp 4
set nflow [expr {$ntcp + $cbr}]
set access {1ms 2ms 3ms 4ms 1ms}
set start {0.0 0.11 0.23 0.37 0.5}
set from 10.0
set stop 100.0

Queue/DRR set buckets_ 64
Queue/DRR set blimit_ 25000
Queue/DRR set quantum_ 1000
Queue/DRR set mask_ 0

# The bucket ns-2's DRR puts a source node into. Node ids are the addresses.
proc drr-bucket {id} {
    return [expr {(($id + ($id >> 8) + ~($id >> 4)) % ((2 << 23) - 1) + 1) % [Queue/DRR set buckets_]}]
}

set ns [new Simulator]
for {set i 0} {$i < $nflow} {incr i} {
    set src($i) [$ns node]
    set bucket [drr-bucket [$src($i) id]]
    if {[info exists used($bucket)]} { puts stderr "two sources share a DRR bucket"; exit 1 }
    set used($bucket) 1
}
set r0 [$ns node]
set r1 [$ns node]
for {set i 0} {$i < $nflow} {incr i} { set dst($i) [$ns node] }

Queue set limit_ 1000
for {set i 0} {$i < $nflow} {incr i} {
    $ns duplex-link $src($i) $r0 10Mb [lindex $access $i] DropTail
    $ns duplex-link $r1 $dst($i) 10Mb 1ms DropTail
}
$ns simplex-link $r1 $r0 1.5Mb 10ms DropTail
$ns simplex-link $r0 $r1 1.5Mb 10ms $discipline
set bottleneck [$ns link $r0 $r1]
if {$discipline == "DropTail"} { $ns queue-limit $r0 $r1 25 }
# FQLink makes its per-flow queues when a flow's first packet comes; they take
# the default limit of that moment. Every other queue exists by then.
Queue set limit_ 25

# Losses per flow. `trace` with an empty file name makes the trace objects but
# writes nothing; only the one for drops gets a callback. (FQLink needs this
# object anyway: its per-flow queues send their drops to it.)
$bottleneck trace $ns {}
set dropTrace [$bottleneck set drpT_]
$dropTrace set callback_ 1
$dropTrace proc handle line { count-drop $line }
proc count-drop {line} {
    global drops drops_all ns from
    set fid [lindex $line 7]
    incr drops_all($fid)
    if {[$ns now] >= $from} { incr drops($fid) }
}

# Packets that reach the sink host: a counter behind the last link.
proc count-arrivals {link} {
    set monitor [new QueueMonitor]
    set snoop [new SnoopQueue/In]
    $snoop set-monitor $monitor
    set ttl [$link set ttl_]
    $snoop target [$ttl target]
    $ttl target $snoop
    return $monitor
}

proc begin {} {
    global ntcp agent phase
    for {set i 0} {$i < $ntcp} {incr i} {
        set phase($i) [reset-with-seed $agent($i) [expr {401 + 700 * $i}]]
    }
}
$ns at 0.0 begin   ;# before flow 0's own event at time 0

Agent/TCP set window_ $window
for {set i 0} {$i < $nflow} {incr i} {
    set drops($i) 0
    set drops_all($i) 0
    set monitor($i) [count-arrivals [$ns link $r1 $dst($i)]]
    if {$i < $ntcp} {
        set agent($i) [new-tcp $variant]
        set sink($i) [new-sink $variant 0]
    } else {
        set agent($i) [new Agent/UDP]
        $agent($i) set packetSize_ 1000
        set sink($i) [new Agent/LossMonitor]
        set app [new Application/Traffic/CBR]
        $app set packetSize_ 1000
        $app set rate_ 1Mb
        $app set random_ 0
        $app attach-agent $agent($i)
        $ns at [lindex $start $i] "$app start"
    }
    $agent($i) set fid_ $i
    $ns attach-agent $src($i) $agent($i)
    $ns attach-agent $dst($i) $sink($i)
    $ns connect $agent($i) $sink($i)
    if {$i < $ntcp} {
        $ns at [lindex $start $i] "$agent($i) advance 1000000"
    }
}

proc received {i} { global monitor; return [$monitor($i) set parrivals_] }
proc goodput {i} {
    global sink
    return [expr {[$sink($i) set bytes_] / 1000}]
}
proc mark {} {
    global nflow before good_before
    for {set i 0} {$i < $nflow} {incr i} {
        set before($i) [received $i]
        set good_before($i) [goodput $i]
    }
}
proc report {} {
    global ns nflow ntcp phase before good_before drops drops_all agent start stop
    for {set i 0} {$i < $nflow} {incr i} {
        if {$i < $ntcp} {
            set kind tcp
            set p $phase($i)
            set sent [$agent($i) set ndatapack_]
        } else {
            set kind cbr
            set p -
            set sent [expr {int(($stop - [lindex $start $i]) / 0.008) + 1}]
        }
        puts "flow $i $kind $p [expr {[received $i] - $before($i)}]\
            [expr {[goodput $i] - $good_before($i)}] $sent $drops($i) $drops_all($i)"
    }
    exit 0
}
$ns at $from mark
$ns at $stop report
$ns run
