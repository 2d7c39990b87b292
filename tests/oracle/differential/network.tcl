# network.tcl - a chain of bottlenecks with flows, as `theirs.py` describes it. What it needs stands in front of it in the file
# that is run: profile.tcl, and the parameters
#
#   unit    seconds of ns-2 per second: 1, or 125000: it then counts 8 us, in which sums of 125 ns are not rounded (with
#           nanoseconds, an integer in a header of 2.35 that holds the round-trip time overflows)
#   seed    of its random numbers
#   begin, stop   nanoseconds: from when to when counters count
#   packets 0: print counters; 1: print each packet at the far end of each link, and each that is dropped
#   hops    list of {rate delay queue}; queue is a dictionary
#   flows   list of dictionaries
#   two_way whether the hops' queues are in both directions
#   departures_first
#           1: a transmission that ends in the very instant in which a packet comes to a hop's queue has ended, as in Tidegate.
#           ns-2 goes by which was scheduled first, and by how its clock rounds. A link without length in front of the queue
#           does it: what it delivers is scheduled in that instant, behind all that was scheduled before
#
# Output: one line per counter, NAME VALUE; or one per packet, NANOSECONDS LINK WHAT FLOW KIND SEQUENCE.

proc seconds {ns} { global unit; return [expr {$ns / (1e9 / $unit)}] }
proc rate {bps} { global unit; return [expr {double($bps) / $unit}] }
if {$unit != 1} {
    foreach name {tcpTick_ rtxcur_init_ minrto_ maxrto_} {
        Agent/TCP set $name [expr {$unit * [Agent/TCP set $name]}]
    }
    foreach class {Agent/TCPSink/DelAck Agent/TCPSink/Sack1/DelAck} { $class set interval_ [seconds 100000000] }
    Scheduler/Heap set maxslop_ 0
}

Queue/RED set bytes_ false
Queue/RED set queue_in_bytes_ false
Queue/RED set cautious_ 0
Queue/RED set wait_ true
Queue/RED set drop_tail_ true
Queue/RED set use_mark_p_ false       ;# 2.35: true, drops above mark_p_ 0.1 although setbit_
Queue/RED set setbit_ true            ;# marks packets of flows with ECN, drops others
Queue/RED set alpha_ 3.0
Queue/RED set beta_ 2.0
Queue/DRR set buckets_ 128
Queue/DRR set mask_ 0
Queue/DRR set quantum_ 1000

proc configure {queue} {
    dict with queue {
        Queue set limit_ $limit
        switch $kind {
            droptail { Queue set limit_ [expr {$limit + 1}]; return DropTail }
            sfq { Queue/SFQ set maxqueue_ $limit; Queue/SFQ set buckets_ $buckets; return SFQ }
            drr { Queue/DRR set blimit_ [expr {1000 * $limit}]; return DRR }
        }
        Queue/RED set gentle_ $gentle
        Queue/RED set mean_pktsize_ $mean_packet
        Queue/RED set idle_pktsize_ $mean_packet      ;# 2.35: 100
        Queue/RED set thresh_ $low
        Queue/RED set maxthresh_ $high
        Queue/RED set linterm_ [expr {1.0 / $max_p}]
        Queue/RED set q_weight_ $weight
        Queue/RED set adaptive_ [expr {$kind eq "adaptive-red"}]
        Queue/RED set feng_adaptive_ [expr {$kind eq "adaptive-red"}]
        return RED
    }
}

set ns [new Simulator]
$ns use-scheduler Heap
set names {}
proc one-way {a b bps delay kind name} {
    global ns names
    $ns simplex-link $a $b [rate $bps] [seconds $delay] $kind
    lappend names [list $a $b $name]
}

# Nodes have the numbers in which they are made: routers, then source and sink of each flow.
for {set i 0} {$i <= [llength $hops]} {incr i} { set r($i) [$ns node] }
set i 0
foreach flow $flows {
    set s($i) [$ns node]
    set d($i) [$ns node]
    incr i
}
proc front {node} {
    global ns departures_first
    if {!$departures_first} { return $node }
    set limit [Queue set limit_]
    Queue set limit_ 10000
    set front [$ns node]
    $ns simplex-link $node $front 1e300 0 DropTail
    Queue set limit_ $limit
    return $front
}

set i 0
foreach hop $hops {
    lassign $hop bps delay queue
    set next [expr {$i + 1}]
    set kind [configure $queue]
    one-way [front $r($i)] $r($next) $bps $delay $kind hop$i.forward
    if {!$two_way} { Queue set limit_ 10000; set kind DropTail }
    one-way [front $r($next)] $r($i) $bps $delay $kind hop$i.reverse
    incr i
}
Queue set limit_ 10000
set i 0
foreach flow $flows {
    dict with flow {
        one-way $s($i) $r($enters) $access_rate $access_delay DropTail in$i.forward
        one-way $r($enters) $s($i) $access_rate $access_delay DropTail in$i.reverse
        one-way $r($leaves) $d($i) $access_rate $exit_delay DropTail out$i.forward
        one-way $d($i) $r($leaves) $access_rate $exit_delay DropTail out$i.reverse
    }
    incr i
}

# The phases of the clocks, then the seed of everything else. Before all other events of time 0.
$ns at 0 {
    set i 0
    foreach flow $flows {
        if {[dict get $flow kind] eq "tcp"} {
            $defaultRNG seed [dict get $flow phase_seed]
            $agent($i) reset
        }
        incr i
    }
    $defaultRNG seed $seed
}

set i 0
foreach flow $flows {
    dict with flow {
        if {$kind eq "tcp"} {
            set agent($i) [new-tcp $variant]
            set sink($i) [new-sink $variant $delayed_ack]
            $agent($i) set window_ $window
            $agent($i) set packetSize_ $packet
            $agent($i) set ecn_ $ecn
        } else {
            set agent($i) [new Agent/UDP]
            set sink($i) [new Agent/LossMonitor]
            $agent($i) set packetSize_ $packet
            if {$kind eq "cbr"} {
                set app [new Application/Traffic/CBR]
                $app set random_ $jitter
                $app set rate_ [rate $rate]
            } else {
                set app [new Application/Traffic/Exponential]
                if {$kind eq "poisson"} {
                    # One packet, then a silence: the packet's own time is next to nothing at this rate.
                    $app set burst_time_ 0
                    $app set rate_ [rate 1e15]
                    $app set idle_time_ [seconds [expr {8e9 * $packet / $rate}]]
                } else {
                    # Tidegate sends at the start of a burst and then every gap as long as it lasts: half a packet more on
                    # average than ns-2, which rounds its length to packets, and begins the silence a gap behind the last.
                    set half [expr {4e9 * $packet / $rate}]
                    $app set burst_time_ [seconds [expr {$on + $half}]]
                    $app set idle_time_ [seconds [expr {$off - $half}]]
                    $app set rate_ [rate $rate]
                }
            }
            $app set packetSize_ $packet
            $app attach-agent $agent($i)
        }
        $agent($i) set fid_ $i
        $ns attach-agent $s($i) $agent($i)
        $ns attach-agent $d($i) $sink($i)
        $ns connect $agent($i) $sink($i)
        if {$kind eq "tcp"} {
            $ns at [seconds $start] "$agent($i) advance $transfer"
        } else {
            $ns at [seconds $start] "$app start"
        }
    }
    incr i
}

# --- counters ---------------------------------------------------------------------

# What a queue marked is what leaves it marked, less what came marked (`pmarks_` alone counts marks of queues before) and was not
# dropped.
proc watch {a b name} {
    global ns monitor before_queue dropped
    set monitor($name) [$ns monitor-queue $a $b ""]
    set link [$ns link $a $b]
    set before_queue($name) [new QueueMonitor]
    set snoop [new SnoopQueue/Out]
    $snoop set-monitor $before_queue($name)
    $link add-to-head $snoop
    set dropped($name) [new QueueMonitor]
    set snoop [new SnoopQueue/Out]
    $snoop set-monitor $dropped($name)
    set head [$link set drophead_]
    $snoop target [$head target]
    $head target $snoop
}

proc look {at} {
    global monitor before_queue dropped flows agent sink
    set seen {}
    foreach name [lsort [array names monitor]] {
        set m $monitor($name)
        set integral [$m get-pkts-integrator]
        $integral newpoint [seconds $at] [$m set pkts_]
        lappend seen queue.$name [expr {[$integral set sum_] / [seconds 1e9]}]
        lappend seen drops.$name [$m set pdrops_]
        lappend seen marks.$name [expr {[$m set pmarks_] - [$before_queue($name) set pmarks_] + [$dropped($name) set pmarks_]}]
        lappend seen arrivals.$name [$m set parrivals_]
    }
    set i 0
    foreach flow $flows {
        lappend seen goodput.f$i [expr {8.0 * [$sink($i) set bytes_]}]
        if {[dict get $flow kind] eq "tcp"} {
            lappend seen retransmissions.f$i [$agent($i) set nrexmitpack_]
            lappend seen sent.f$i [$agent($i) set ndatapack_]
        }
        incr i
    }
    return $seen
}

proc finish {} {
    global first begin stop
    array set from $first
    foreach {name value} [look $stop] {
        puts "$name [format %.12g [expr {($value - $from($name)) / (($stop - $begin) / 1e9)}]]"
    }
    exit 0
}

# --- packets ----------------------------------------------------------------------

proc packet-event {name line} {
    global ns unit
    lassign $line what t from to type size flags fid src dst seq
    if {$what ne "r" && $what ne "d"} return
    set kind [expr {$type eq "ack" ? "ack" : "data"}]
    if {$type ne "ack" && $type ne "tcp"} { set seq -1 }
    puts "[format %.0f [expr {[$ns now] * (1e9 / $unit)}]] $name [expr {$what eq "d" ? "drop" : "arrive"}] $fid $kind $seq"
}

foreach link $names {
    lassign $link a b name
    if {$packets} {
        [$ns link $a $b] trace-callback $ns [list packet-event $name]
    } elseif {[string match hop*forward $name] || ([string match hop*reverse $name] && $two_way)} {
        watch $a $b [string map {.forward {}} $name]
    }
}
if {!$packets} {
    $ns at [seconds $begin] { set first [look $begin] }
    $ns at [seconds $stop] finish
} else {
    $ns at [seconds $stop] { exit 0 }
}
$ns run
