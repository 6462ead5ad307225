#include "tests/bench/simgrid_ring.hpp"

#include <simgrid/s4u.hpp>
#include <string>

namespace foreshard::bench {
namespace {

namespace sg = simgrid::s4u;

void rank(sg::Mailbox* out, sg::Mailbox* in, std::uint64_t bytes, std::uint64_t messages) {
  static int token = 0;
  for (std::uint64_t i = 0; i < messages; ++i) {
    const sg::CommPtr sent = out->put_async(&token, bytes);
    in->get<int>();
    sent->wait();
  }
}

}  // namespace

double simgrid_ring(const std::vector<double>& gb_per_s, double latency, double bytes, std::uint32_t collectives) {
  sg::Engine engine("ring");
  for (const char* setting :
       {"network/model:CM02", "network/latency-factor:1", "network/bandwidth-factor:1", "network/weight-S:0",
        "network/TCP-gamma:0", "network/crosstraffic:0", "surf/precision:1e-12", "maxmin/precision:1e-12"})
    sg::Engine::set_config(setting);
  sg::NetZone* const zone = sg::create_full_zone("ring");
  const std::size_t ranks = gb_per_s.size();
  std::vector<sg::Host*> hosts;
  for (std::size_t i = 0; i < ranks; ++i) hosts.push_back(zone->create_host("rank" + std::to_string(i), 1e9));
  for (std::size_t i = 0; i < ranks; ++i) {
    const sg::Link* const link =
        zone->create_link("hop" + std::to_string(i), gb_per_s[i] * 1e9)->set_latency(latency)->seal();
    zone->add_route(hosts[i]->get_netpoint(), hosts[(i + 1) % ranks]->get_netpoint(), nullptr, nullptr,
                    {sg::LinkInRoute(link)}, false);
  }
  zone->seal();
  std::vector<sg::Mailbox*> boxes;
  for (std::size_t i = 0; i < ranks; ++i) boxes.push_back(sg::Mailbox::by_name("hop" + std::to_string(i)));
  for (std::size_t i = 0; i < ranks; ++i) {
    sg::Mailbox* const in = boxes[(i + ranks - 1) % ranks];
    in->set_receiver(sg::Actor::create("rank" + std::to_string(i), hosts[i], rank, boxes[i], in,
                                       static_cast<std::uint64_t>(bytes), std::uint64_t{collectives} * (ranks - 1)));
  }
  engine.run();
  return sg::Engine::get_clock();
}

}  // namespace foreshard::bench
