# One queue of ns-2 and given arrivals: prints what it does, in order.
#
#   ns queues.tcl KIND SCHEDULE
#
# KIND is one of drr, drr_small, red, red_overflow, sfq, sfq_tight, cbq_ancestor, cbq_top, cbq_formal. SCHEDULE is a file of lines "seconds source bytes". The access links
# send a byte per nanosecond and take 1 ms, so that a packet reaches the queue a known time after it was sent, and no two
# packets wait for each other there. Prints the trace of the queue: + uid source bytes, - uid, d uid.

set kind [lindex $argv 0]
set ns [new Simulator]

Queue/DRR set buckets_ 64
Queue/DRR set mask_ 0
Queue/RED set bytes_ false
Queue/RED set queue_in_bytes_ false
Queue/RED set gentle_ false
Queue/RED set adaptive_ 0
Queue/RED set setbit_ false
Queue/RED set wait_ true
Queue/RED set drop_tail_ true
Queue/RED set mean_pktsize_ 500
Queue/RED set thresh_ 5
Queue/RED set maxthresh_ 15
# So improbable that no early drop happens: what is left does not depend on random numbers.
Queue/RED set linterm_ 1e12

set queue DRR
set limit 1000
switch $kind {
    drr { Queue/DRR set quantum_ 1000; Queue/DRR set blimit_ 32000 }
    drr_small { Queue/DRR set quantum_ 250; Queue/DRR set blimit_ 10000 }
    red { set queue RED; Queue/RED set q_weight_ 0.02; set limit 40 }
    red_overflow { set queue RED; Queue/RED set q_weight_ 0.002; set limit 12 }
    sfq { set queue SFQ; Queue/SFQ set maxqueue_ 40; Queue/SFQ set buckets_ 16 }
    sfq_tight { set queue SFQ; Queue/SFQ set maxqueue_ 12; Queue/SFQ set buckets_ 16 }
    cbq_ancestor { set queue CBQ/WRR; set algorithm ancestor-only; set top 0.98 }
    cbq_top { set queue CBQ/WRR; set algorithm top-level; set top 0.98 }
    cbq_formal { set queue CBQ/WRR; set algorithm formal; set top 1.0 }
    default { error "no such kind: $kind" }
}

# The sources come first: their addresses, which DRR hashes, are 0 to 4.
for {set i 0} {$i < 5} {incr i} { set source($i) [$ns node] }
set in [$ns node]
set out [$ns node]
for {set i 0} {$i < 5} {incr i} { $ns simplex-link $source($i) $in 8000Mb 1ms DropTail }
$ns simplex-link $in $out 10Mb 10ms $queue
$ns queue-limit $in $out $limit

# A class with the drop-tail queue of ns-2 (which holds one packet less than its limit) on its lowest level.
proc class_of {parent share priority level} {
    set class [new CBQClass]
    if {$level == 1} {
        set own [new Queue/DropTail]
        $own set limit_ 21
        $class install-queue $own
    }
    return [$class setparams $parent true $share auto $priority $level 0]
}
# Two agencies: A has sources 0 and 1, B has 2, 3 and 4. ns-2 inserts each class of a priority behind the first, so that the
# last ones are inserted backwards.
if {$queue == "CBQ/WRR"} {
    set link [$ns link $in $out]
    [$link queue] set maxpkt_ 1500
    [$link queue] algorithm $algorithm
    set root [class_of none $top 8 3]
    $root set okborrow_ false
    set a [class_of $root [expr 0.7 * $top] 8 2]
    set b [class_of $root [expr 0.3 * $top] 8 2]
    set leaf(0) [class_of $a 0.3 1 1]
    set leaf(1) [class_of $a 0.4 2 1]
    set leaf(2) [class_of $b 0.1 1 1]
    set leaf(3) [class_of $b 0.15 2 1]
    set leaf(4) [class_of $b 0.05 2 1]
    foreach class [list $root $a $b $leaf(0) $leaf(2) $leaf(1) $leaf(4) $leaf(3)] { $link insert $class }
    for {set i 0} {$i < 5} {incr i} { $link bind $leaf($i) $i }
}
$ns trace-queue $in $out [open /dev/stdout w]

set sink [new Agent/Null]
$ns attach-agent $out $sink
for {set i 0} {$i < 5} {incr i} {
    set udp($i) [new Agent/UDP]
    $udp($i) set packetSize_ 1500
    $udp($i) set fid_ $i
    $ns attach-agent $source($i) $udp($i)
    $ns connect $udp($i) $sink
}

set schedule [open [lindex $argv 1]]
while {[gets $schedule line] >= 0} {
    lassign $line at i bytes
    $ns at $at "$udp($i) send $bytes"
    set last $at
}
$ns at [expr {$last + 1.0}] { exit 0 }
$ns run
