# droplist.tcl - one TCP through one bottleneck that loses exactly the packets
# it is told to lose. Prints what the sender does.
#
# Run:  ns droplist.tcl VARIANT DELACK TRANSFER WINDOW SEED DROP ...
#   VARIANT   tahoe | reno | reno-nobugfix | newreno | sack1
#   DELACK    0: one ACK per packet; 1: delayed ACKs (100 ms)
#   TRANSFER  packets to send
#   WINDOW    receiver's window in packets
#   SEED      for the phase of the sender's clock (see profile.tcl)
#   DROP      SEQ:K, lose the K-th transmission (1 = first) of packet SEQ;
#             SEQ:K*, mark it instead (the TCP then understands ECN)
# Must be started in its own folder (it sources profile.tcl).
#
# Output lines:
#   phase SECONDS          the clock phase boot_time_ of the sender
#   send TIME SEQ CWND     the sender hands a data packet to its access link
#   drop ORDINAL           the bottleneck lost the ORDINAL-th data packet
#                          (counted from 0 in order of arrival there)
#   ack TIME SEQ           an ACK reached the sender's node
#   done TIME              the last packet was acknowledged
#
# Network: n0 -(10 Mb/s, 1 ms)- r0 -(1.5 Mb/s, 10 ms)- r1 -(10 Mb/s, 1 ms)- n1,
# every queue DropTail with limit 1000, so that only the list loses packets.

source profile.tcl

foreach {variant delack transfer window seed} [lrange $argv 0 4] break
foreach d [lrange $argv 5 end] {
    if {[string match *\\* $d]} { set mark([string trimright $d *]) 1 } else { set lose($d) 1 }
}

set ns [new Simulator]
foreach n {n0 r0 r1 n1} { set $n [$ns node] }
Queue set limit_ 1000
$ns duplex-link $n0 $r0 10Mb 1ms DropTail
$ns duplex-link $r0 $r1 1.5Mb 10ms DropTail
$ns duplex-link $r1 $n1 10Mb 1ms DropTail

Agent/TCP set window_ $window
Agent/TCP set ecn_ [array exists mark]
set tcp [new-tcp $variant]
set sink [new-sink $variant $delack]
$ns attach-agent $n0 $tcp
$ns attach-agent $n1 $sink
$ns connect $tcp $sink

# Losses. An error model stands in front of the bottleneck's queue; its rate is
# set to 1 or 0 for each packet when the packet comes out of the access link,
# which is the same instant and just before.
set em [new ErrorModel]
$em unit pkt
$em set rate_ 0
$ns lossmodel $em $r0 $r1
$em drop-target [new Agent/Null]

# Marks, in the same way. Only where there are any: without them the network is as it was.
if {[array exists mark]} {
    set marker [new ErrorModel]
    $marker unit pkt
    $marker set rate_ 0
    $marker set markecn_ true
    $ns lossmodel $marker $r0 $r1
}

proc access-event {line} {
    global ns tcp em marker lose mark seen ordinal
    foreach {what t from to type size flags fid src dst seq} $line break
    if {$what == "+"} {
        puts [format "send %.9f %d %.4f" [$ns now] $seq [$tcp set cwnd_]]
    } elseif {$what == "r"} {
        if {![info exists seen($seq)]} { set seen($seq) 0 }
        incr seen($seq)
        set hit [info exists lose($seq:$seen($seq))]
        $em set rate_ $hit
        if {$hit} { puts "drop $ordinal" }
        if {[info exists marker]} {
            set hit [info exists mark($seq:$seen($seq))]
            $marker set rate_ $hit
            if {$hit} { puts "mark $ordinal" }
        }
        incr ordinal
    }
}
proc return-event {line} {
    global ns
    foreach {what t from to type size flags fid src dst seq} $line break
    if {$what == "r"} { puts [format "ack %.9f %d" [$ns now] $seq] }
}
set ordinal 0
[$ns link $n0 $r0] trace-callback $ns access-event
[$ns link $r0 $n0] trace-callback $ns return-event

Agent/TCP instproc done {} { global ns; puts [format "done %.9f" [$ns now]] }

proc begin {} {
    global ns tcp seed transfer
    puts "phase [reset-with-seed $tcp $seed]"
    $tcp advance $transfer
}
$ns at 0.0 begin
$ns at 300.0 {exit 0}
$ns run
