// peers.cc - the five peer scenarios for ns-3 (written for 3.37).
//
// Measures wall-clock time of building and running each scenario, the number of
// packet-hops, the receivers' throughput and the peak memory; prints one line of
// JSON. The scenarios are those of ../ns2/s1.tcl .. s5.tcl, S5 with FIFO only:
// ns-3 has no plain DRR with one queue per flow (its FqCoDel drops by its own
// rules).
//
// Run:  peers --scenario=s1|s2|s3|s4|s5 [--count=1] [--duration=SECONDS]
//             [--scheduler=ns3::MapScheduler]
//   count      0 (default): the timed run, packet_hops is null. 1: a trace sink on
//              every device counts packets that came in completely; the times
//              are those of the slower run.
//   duration   simulated seconds, if not the scenario's own
//   scheduler  any of ns-3's event queues
//
// Build: make (see Makefile).
//
// Where ns-3 differs from the scenario, and what is done to keep it at its best:
//  * Its point-to-point link adds 2 bytes of PPP header: 1042 instead of 1040
//    bytes on the wire, ACKs 42, UDP packets 1002.
//  * Its TCP is set to look like the others': NewReno with classic recovery, no
//    SACK, no time stamps, initial window 2, RTO at least 200 ms, ACKs delayed
//    by 100 ms or every second packet.
//  * A sender fills its send buffer with packets at once. Where the window never
//    gets near the receiver's window, a smaller send buffer is used (S1: 200
//    packets, S2 and S3: 100), which saves ns-3 time and memory.
//  * No queueing discipline is installed except RED; drop-tail is the device's
//    own queue. RED sits above a device queue of one packet.
//  * Routes come from a small table per node (class TableRouting, one hash
//    look-up, none for hosts) instead of ns-3's routing protocols, whose linear
//    search would dominate with thousands of hosts, and whose route computation
//    would dominate the building.
//  * Not avoided: for every packet a node walks its lists of interfaces and of
//    protocol handlers, so the two routers get slower with the number of hosts
//    (S2, and much more S3).

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

using namespace ns3;

// ---------------------------------------------------------------------------
// Routing: destination address -> interface, or the default interface. One
// Ipv4Route object per interface is made once and shared by all packets.

class TableRouting : public Ipv4RoutingProtocol
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("TableRouting").SetParent<Ipv4RoutingProtocol>();
        return tid;
    }

    void AddInterface(uint32_t interface, Ipv4Address peer)
    {
        Ptr<Ipv4Route> route = Create<Ipv4Route>();
        route->SetGateway(peer);
        route->SetSource(m_ipv4->GetAddress(interface, 0).GetLocal());
        route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
        if (m_routes.size() <= interface)
        {
            m_routes.resize(interface + 1);
        }
        m_routes[interface] = route;
        m_local.insert({route->GetSource().Get(), true});
    }

    void AddRoute(Ipv4Address destination, uint32_t interface)
    {
        m_table[destination.Get()] = interface;
    }

    void SetDefault(uint32_t interface)
    {
        m_default = interface;
    }

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>,
                               const Ipv4Header& header,
                               Ptr<NetDevice>,
                               Socket::SocketErrno& error) override
    {
        Ptr<Ipv4Route> route = Find(header.GetDestination());
        error = route ? Socket::ERROR_NOTERROR : Socket::ERROR_NOROUTETOHOST;
        return route;
    }

    bool RouteInput(Ptr<const Packet> packet,
                    const Ipv4Header& header,
                    Ptr<const NetDevice> device,
                    UnicastForwardCallback forward,
                    MulticastForwardCallback,
                    LocalDeliverCallback deliver,
                    ErrorCallback error) override
    {
        if (m_local.count(header.GetDestination().Get()))
        {
            deliver(packet, header, m_ipv4->GetInterfaceForDevice(device));
            return true;
        }
        Ptr<Ipv4Route> route = Find(header.GetDestination());
        if (!route)
        {
            error(packet, header, Socket::ERROR_NOROUTETOHOST);
            return false;
        }
        forward(route, packet, header);
        return true;
    }

    void SetIpv4(Ptr<Ipv4> ipv4) override
    {
        m_ipv4 = ipv4;
    }

    void NotifyInterfaceUp(uint32_t) override
    {
    }

    void NotifyInterfaceDown(uint32_t) override
    {
    }

    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override
    {
    }

    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override
    {
    }

    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override
    {
    }

  private:
    Ptr<Ipv4Route> Find(Ipv4Address destination) const
    {
        if (!m_table.empty())
        {
            auto it = m_table.find(destination.Get());
            if (it != m_table.end())
            {
                return m_routes[it->second];
            }
        }
        return m_default == 0 ? nullptr : m_routes[m_default];
    }

    Ptr<Ipv4> m_ipv4;
    std::vector<Ptr<Ipv4Route>> m_routes; // by interface
    std::unordered_map<uint32_t, uint32_t> m_table;
    std::unordered_map<uint32_t, bool> m_local;
    uint32_t m_default = 0; // interface 0 is the loopback, so 0 means none
};

class TableRoutingHelper : public Ipv4RoutingHelper
{
  public:
    TableRoutingHelper* Copy() const override
    {
        return new TableRoutingHelper(*this);
    }

    Ptr<Ipv4RoutingProtocol> Create(Ptr<Node>) const override
    {
        return CreateObject<TableRouting>();
    }
};

Ptr<TableRouting>
RoutingOf(Ptr<Node> node)
{
    return DynamicCast<TableRouting>(node->GetObject<Ipv4>()->GetRoutingProtocol());
}

// ---------------------------------------------------------------------------
// Links. Each gets its own two addresses.

struct Link
{
    Ptr<NetDevice> device[2];
    uint32_t interface[2];
    Ipv4Address address[2];
};

uint32_t g_nextAddress = 0x0a000000;

Link
Connect(Ptr<Node> a, Ptr<Node> b, const std::string& rate, const std::string& delay, int packets)
{
    PointToPointHelper helper;
    helper.SetDeviceAttribute("DataRate", StringValue(rate));
    helper.SetChannelAttribute("Delay", StringValue(delay));
    helper.SetQueue("ns3::DropTailQueue<Packet>",
                    "MaxSize",
                    StringValue(std::to_string(packets) + "p"));
    NetDeviceContainer devices = helper.Install(a, b);
    Ptr<Node> nodes[2] = {a, b};
    Link link;
    for (int i = 0; i < 2; i++)
    {
        link.device[i] = devices.Get(i);
        link.address[i] = Ipv4Address(g_nextAddress + 1 + i);
        Ptr<Ipv4> ipv4 = nodes[i]->GetObject<Ipv4>();
        link.interface[i] = ipv4->AddInterface(devices.Get(i));
        ipv4->AddAddress(link.interface[i],
                         Ipv4InterfaceAddress(link.address[i], Ipv4Mask("255.255.255.252")));
        ipv4->SetMetric(link.interface[i], 1);
        ipv4->SetUp(link.interface[i]);
    }
    RoutingOf(a)->AddInterface(link.interface[0], link.address[1]);
    RoutingOf(b)->AddInterface(link.interface[1], link.address[0]);
    g_nextAddress += 4;
    return link;
}

NodeContainer
NewNodes(uint32_t n)
{
    NodeContainer nodes;
    nodes.Create(n);
    TableRoutingHelper routing;
    InternetStackHelper stack;
    stack.SetRoutingHelper(routing);
    stack.SetIpv6StackInstall(false);
    stack.Install(nodes);
    return nodes;
}

// ---------------------------------------------------------------------------
// Dumbbell with TCP, as in ../ns2/common.tcl.

const int UNLIMITED = 100000; // packets; a queue that never drops
std::vector<Ptr<PacketSink>> g_sinks;

void
TcpDefaults(uint32_t payload, uint32_t windowPackets, uint32_t sendBufferPackets, bool ecn)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType",
                       TypeIdValue(TcpClassicRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(payload));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(100)));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(payload * sendBufferPackets));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(payload * windowPackets));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(ecn ? "On" : "Off"));
}

void
TcpDumbbell(uint32_t flows,
            uint32_t payload,
            const std::string& accessRate,
            const std::string& accessDelay,
            const std::string& rate,
            const std::string& delay,
            bool red,
            int limit,
            double spacing)
{
    NodeContainer routers = NewNodes(2);
    Ptr<Node> a = routers.Get(0);
    Ptr<Node> b = routers.Get(1);
    Link middle = Connect(a, b, rate, delay, UNLIMITED);
    RoutingOf(a)->SetDefault(middle.interface[0]);
    RoutingOf(b)->SetDefault(middle.interface[1]);
    auto queue = DynamicCast<PointToPointNetDevice>(middle.device[0])->GetQueue();
    queue->SetMaxSize(QueueSize(red ? "1p" : std::to_string(limit) + "p"));
    if (red)
    {
        TrafficControlHelper control;
        control.SetRootQueueDisc("ns3::RedQueueDisc",
                                 "MaxSize",
                                 StringValue(std::to_string(limit) + "p"),
                                 "MinTh",
                                 DoubleValue(100),
                                 "MaxTh",
                                 DoubleValue(300),
                                 "LInterm",
                                 DoubleValue(10),
                                 "QW",
                                 DoubleValue(0.002),
                                 "MeanPktSize",
                                 UintegerValue(1040),
                                 "Wait",
                                 BooleanValue(true),
                                 "Gentle",
                                 BooleanValue(false),
                                 "UseEcn",
                                 BooleanValue(true),
                                 "UseHardDrop",
                                 BooleanValue(true),
                                 "LinkBandwidth",
                                 StringValue(rate),
                                 "LinkDelay",
                                 StringValue(delay));
        control.Install(middle.device[0]);
    }

    NodeContainer left = NewNodes(flows);
    NodeContainer right = NewNodes(flows);
    const uint16_t port = 5000;
    for (uint32_t i = 0; i < flows; i++)
    {
        Link in = Connect(left.Get(i), a, accessRate, accessDelay, UNLIMITED);
        Link out = Connect(b, right.Get(i), accessRate, accessDelay, UNLIMITED);
        RoutingOf(left.Get(i))->SetDefault(in.interface[0]);
        RoutingOf(right.Get(i))->SetDefault(out.interface[1]);
        RoutingOf(a)->AddRoute(in.address[0], in.interface[1]);
        RoutingOf(b)->AddRoute(out.address[1], out.interface[0]);

        PacketSinkHelper sink("ns3::TcpSocketFactory",
                              InetSocketAddress(Ipv4Address::GetAny(), port));
        ApplicationContainer sinkApp = sink.Install(right.Get(i));
        sinkApp.Start(Seconds(0));
        g_sinks.push_back(DynamicCast<PacketSink>(sinkApp.Get(0)));

        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(out.address[1], port));
        source.SetAttribute("MaxBytes", UintegerValue(0));
        source.SetAttribute("SendSize", UintegerValue(payload));
        source.Install(left.Get(i)).Start(Seconds(i * spacing));
    }
}

// ---------------------------------------------------------------------------
// GFC-2 with UDP, as in ../ns2/s5.tcl.

void
Gfc2()
{
    struct Flow
    {
        int enter;
        int leave;
    };

    const std::vector<Flow> flows = {
        {1, 6}, {2, 6}, {3, 6},                                 // A1..A3
        {1, 7}, {2, 7}, {4, 7},                                 // B1..B3
        {5, 6}, {5, 6}, {5, 6},                                 // C1..C3
        {1, 2},                                                 // D
        {2, 3}, {2, 3},                                         // E1, E2
        {3, 4},                                                 // F
        {6, 7}, {6, 7}, {6, 7}, {6, 7}, {6, 7}, {6, 7}, {6, 7}, // G1..G7
        {4, 5}, {4, 5},                                         // H1, H2
    };
    const int coreMbps[6] = {50, 100, 50, 150, 150, 50};
    const int limit = 100;
    const uint32_t payload = 972; // 1000 bytes with UDP and IP headers
    const double interval = 80e-6;

    NodeContainer core = NewNodes(7);
    std::vector<Link> coreLinks;
    for (int i = 0; i < 6; i++)
    {
        coreLinks.push_back(Connect(core.Get(i),
                                    core.Get(i + 1),
                                    std::to_string(coreMbps[i]) + "Mbps",
                                    "5ms",
                                    limit));
    }
    NodeContainer hosts = NewNodes(flows.size() * 4);
    for (size_t i = 0; i < flows.size(); i++)
    {
        Ptr<Node> source = hosts.Get(4 * i);
        Ptr<Node> edgeIn = hosts.Get(4 * i + 1);
        Ptr<Node> edgeOut = hosts.Get(4 * i + 2);
        Ptr<Node> sink = hosts.Get(4 * i + 3);
        Ptr<Node> enter = core.Get(flows[i].enter - 1);
        Ptr<Node> leave = core.Get(flows[i].leave - 1);
        Link l1 = Connect(source, edgeIn, "150Mbps", "5ms", limit);
        Link l2 = Connect(edgeIn, enter, "150Mbps", "5ms", limit);
        Link l3 = Connect(leave, edgeOut, "150Mbps", "5ms", limit);
        Link l4 = Connect(edgeOut, sink, "150Mbps", "5ms", limit);
        RoutingOf(source)->SetDefault(l1.interface[0]);
        RoutingOf(edgeIn)->SetDefault(l2.interface[0]);
        RoutingOf(edgeOut)->SetDefault(l4.interface[0]);
        RoutingOf(sink)->SetDefault(l4.interface[1]);
        Ipv4Address destination = l4.address[1];
        for (int r = flows[i].enter; r < flows[i].leave; r++)
        {
            RoutingOf(core.Get(r - 1))->AddRoute(destination, coreLinks[r - 1].interface[0]);
        }
        RoutingOf(leave)->AddRoute(destination, l3.interface[0]);

        const uint16_t port = 5000;
        PacketSinkHelper sinkHelper("ns3::UdpSocketFactory",
                                    InetSocketAddress(Ipv4Address::GetAny(), port));
        ApplicationContainer sinkApp = sinkHelper.Install(sink);
        sinkApp.Start(Seconds(0));
        g_sinks.push_back(DynamicCast<PacketSink>(sinkApp.Get(0)));

        UdpClientHelper client(destination, port);
        client.SetAttribute("PacketSize", UintegerValue(payload));
        client.SetAttribute("Interval", TimeValue(Seconds(interval)));
        client.SetAttribute("MaxPackets", UintegerValue(4000000000u));
        client.Install(source).Start(Seconds(interval * i / flows.size()));
    }
}

// ---------------------------------------------------------------------------

uint64_t g_hops = 0;

void
CountHop(Ptr<const Packet>)
{
    g_hops++;
}

void
CountHops()
{
    for (uint32_t n = 0; n < NodeList::GetNNodes(); n++)
    {
        Ptr<Node> node = NodeList::GetNode(n);
        for (uint32_t d = 0; d < node->GetNDevices(); d++)
        {
            if (DynamicCast<PointToPointNetDevice>(node->GetDevice(d)))
            {
                node->GetDevice(d)->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&CountHop));
            }
        }
    }
}

int
main(int argc, char* argv[])
{
    auto clock = [] { return std::chrono::steady_clock::now(); };
    auto buildStart = clock();

    std::string scenario = "s1";
    std::string scheduler = "ns3::MapScheduler";
    bool count = false;
    double duration = 0;
    CommandLine cmd(__FILE__);
    cmd.AddValue("scenario", "s1, s2, s3, s4 or s5", scenario);
    cmd.AddValue("scheduler", "ns-3 event queue", scheduler);
    cmd.AddValue("count", "count packet-hops", count);
    cmd.AddValue("duration", "simulated seconds (0: the scenario's own)", duration);
    cmd.Parse(argc, argv);
    GlobalValue::Bind("SchedulerType", StringValue(scheduler));

    double seconds = 100;
    double scale = 1; // from the bytes the sinks count to the bytes reported
    if (scenario == "s1")
    {
        TcpDefaults(1000, 1000, 200, false);
        TcpDumbbell(8, 1000, "100Mbps", "1ms", "10Mbps", "8ms", false, 100, 0.1);
    }
    else if (scenario == "s2" || scenario == "s3")
    {
        uint32_t flows = scenario == "s2" ? 400 : 4000;
        seconds = scenario == "s2" ? 100 : 30;
        TcpDefaults(1000, 1000, 100, true);
        TcpDumbbell(flows, 1000, "100Mbps", "5ms", "45Mbps", "10ms", true, 1000, 1.0 / flows);
    }
    else if (scenario == "s4")
    {
        seconds = 10;
        TcpDefaults(1460, 10000, 10000, false);
        TcpDumbbell(10, 1460, "10Gbps", "10us", "1Gbps", "10ms", false, 1000, 0.01);
    }
    else if (scenario == "s5")
    {
        seconds = 4.5;
        scale = 1000.0 / 972.0;
        Gfc2();
        scenario = "s5-fifo";
    }
    else
    {
        std::fprintf(stderr, "unknown scenario: %s\n", scenario.c_str());
        return 2;
    }
    if (duration > 0)
    {
        seconds = duration;
    }
    if (count)
    {
        CountHops();
    }
    Simulator::Stop(Seconds(seconds));

    auto runStart = clock();
    Simulator::Run();
    auto runEnd = clock();

    double bits = 0;
    for (const auto& sink : g_sinks)
    {
        bits += 8.0 * scale * sink->GetTotalRx();
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    auto length = [](auto from, auto to) {
        return std::chrono::duration<double>(to - from).count();
    };
    std::printf("{\"peer\":\"ns-3\",\"scenario\":\"%s\",\"scheduler\":\"%s\",\"sim_s\":%g,"
                "\"counted\":%s,\"build_s\":%.3f,\"run_s\":%.3f,\"packet_hops\":%s,"
                "\"throughput_mbps\":%.3f,\"peak_rss_kb\":%ld}\n",
                scenario.c_str(),
                scheduler.c_str(),
                seconds,
                count ? "true" : "false",
                length(buildStart, runStart),
                length(runStart, runEnd),
                count ? std::to_string(g_hops).c_str() : "null",
                bits / seconds / 1e6,
                usage.ru_maxrss);
    std::fflush(stdout);
    Simulator::Destroy();
    return 0;
}
