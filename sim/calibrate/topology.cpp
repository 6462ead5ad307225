#include "sim/calibrate/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <pugixml.hpp>
#include <set>

namespace foreshard::sim {
namespace {

constexpr std::size_t kLargestText = 16 * kMiB;  // NCCL's own limits keep a node's file far below 1 MiB
constexpr int kDeepestElement = 64;
constexpr std::uint32_t kMaxNvlinks = 72;  // of a GPU: NVLink 5 has 18
constexpr std::size_t kMaxDevices = 256;   // GPUs, and ports: a node has a few tens

/// GB/s of one NVLink by compute capability, the newest that is not above the GPU's (NCCL 2.28 graph/topo.h).
struct LinkSpeed {
  std::uint32_t sm;
  double gb_per_s;
};
constexpr std::array kLinkSpeeds{LinkSpeed{60, 18}, LinkSpeed{70, 20},   LinkSpeed{86, 12},
                                 LinkSpeed{87, 20}, LinkSpeed{90, 20.6}, LinkSpeed{100, 40.1}};
/// Units of 100 Mb/s a lane, by the beginning of link_speed (NCCL 2.28 graph/topo.cc, kvDictPciGen).
struct LaneSpeed {
  std::string_view text;
  double units;
};
constexpr std::array kLaneSpeeds{LaneSpeed{"2.5 GT/s", 15},   LaneSpeed{"5 GT/s", 30},    LaneSpeed{"8 GT/s", 60},
                                 LaneSpeed{"16 GT/s", 120},   LaneSpeed{"32 GT/s", 240},  LaneSpeed{"64 GT/s", 480},
                                 LaneSpeed{"5.0 GT/s", 30},   LaneSpeed{"8.0 GT/s", 60},  LaneSpeed{"16.0 GT/s", 120},
                                 LaneSpeed{"32.0 GT/s", 240}, LaneSpeed{"64.0 GT/s", 480}};

class TopologyReader {
 public:
  TopologyReader(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  Result<Measurements> read() {
    out_.format = "NCCL topology";
    if (text_.size() > kLargestText)
      return foreshard::fail(ErrorKind::input, "is larger than 16 MiB", where_, "is it a topology of NCCL?");
    pugi::xml_document document;
    const auto parsed = document.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!parsed)
      return foreshard::fail(ErrorKind::input, fmt::format("is not valid XML: {}", parsed.description()),
                             line_of(parsed.offset), "is the file cut short?");
    const pugi::xml_node system = document.child("system");
    if (!system)
      return foreshard::fail(ErrorKind::input, "has no <system>", where_,
                             "a topology file is what NCCL writes to NCCL_TOPO_DUMP_FILE");
    visit(system, 0);
    if (!failed_ && node_.gpus == 0) fail(system, "names no GPU");
    if (!failed_ && std::max(gpus_.size(), ports_.size()) > kMaxDevices)
      fail(system, fmt::format("has more than {} GPUs or adapters", kMaxDevices), "is it one node's?");
    if (failed_) return tl::unexpected(error_);
    if (hosts_.size() > 1) fail(system, fmt::format("joins {} hosts", hosts_.size()), "give one node's file");
    sort_gpus();
    if (failed_) return tl::unexpected(error_);
    finish();
    out_.node = node_;
    return std::move(out_);
  }

 private:
  std::string line_of(std::ptrdiff_t offset) const {
    const auto end = text_.begin() + std::clamp<std::ptrdiff_t>(offset, 0, static_cast<std::ptrdiff_t>(text_.size()));
    return fmt::format("{} line {}", where_, 1 + std::count(text_.begin(), end, '\n'));
  }
  void fail(const pugi::xml_node& node, std::string what, std::string hint = {}) {
    if (failed_) return;
    failed_ = true;
    error_ = {ErrorKind::input, std::move(what), fmt::format("{} <{}>", line_of(node.offset_debug()), node.name()),
              std::move(hint)};
  }
  /// The attribute as a whole number; an error where it is missing, none, or beyond `most`.
  std::uint32_t whole(const pugi::xml_node& node, const char* name, std::uint32_t most) {
    const std::string_view text = node.attribute(name).value();
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value <= most) return value;
    fail(node, fmt::format("{}=\"{}\" is no whole number up to {}", name, text, most));
    return 0;
  }

  void visit(const pugi::xml_node& node, int depth) {
    if (depth > kDeepestElement) return fail(node, "is nested too deeply", "is it a topology of NCCL?");
    for (const pugi::xml_node& child : node.children()) {
      const std::string_view name = child.name();
      if (name == "cpu") hosts_.insert(child.attribute("host_hash").value());
      if (name == "gpu") gpu(child);
      if (name == "net") nic(child);
      if (name != "gpu") visit(child, depth + 1);
      if (failed_) return;
    }
  }

  void gpu(const pugi::xml_node& gpu) {
    if (std::string_view(gpu.attribute("rank").value()) == "-1") return out_.note("GPUs that take no part (rank -1)");
    const std::uint32_t sm = whole(gpu, "sm", 999);
    std::uint32_t links = 0;
    bool to_switch = true;
    for (const pugi::xml_node& link : gpu.children("nvlink")) {
      links += whole(link, "count", 1000);
      to_switch &= std::string_view(link.attribute("tclass").value()).starts_with("0x068");
    }
    if (links > kMaxNvlinks) fail(gpu, fmt::format("has {} NVLinks, which no GPU has", links));
    const double slot = pcie(gpu.parent());
    if (node_.gpus == 0) {
      node_.sm = sm;
      node_.nvlinks = links;
      node_.nvswitch = links > 0 && to_switch;
      node_.pcie_gb_per_s = slot;
    } else if (sm != node_.sm || links != node_.nvlinks) {
      fail(gpu, fmt::format("has sm {} and {} NVLinks, the first GPU sm {} and {}", sm, links, node_.sm, node_.nvlinks),
           "only equal GPUs can be described");
    }
    node_.pcie_gb_per_s = std::min(node_.pcie_gb_per_s, slot);
    direct_ &= std::string_view(gpu.attribute("gdr").value()) == "1";
    gpus_.push_back(gpu);
    ++node_.gpus;
  }

  /// GB/s of a PCIe device's slot, one direction: width × units / 80; 0 where the file does not say.
  double pcie(const pugi::xml_node& device) {
    const std::string_view speed = device.attribute("link_speed").value();
    if (speed.empty()) return 0;
    std::uint32_t width = device.attribute("link_width") ? whole(device, "link_width", 64) : 16;
    if (width == 0) {  // NCCL 2.28 graph/topo.cc: unknown means 16 lanes
      out_.note("PCIe slots of link_width 0: taken for 16 lanes, as NCCL takes them");
      width = 16;
    }
    for (const LaneSpeed& lane : kLaneSpeeds)
      if (speed.starts_with(lane.text)) return width * lane.units / 80;
    out_.note(fmt::format("PCIe speeds that are not known, whose slots count as if they were not named: {}", speed));
    return 0;
  }

  void nic(const pugi::xml_node& net) {
    if (std::string_view(net.attribute("keep").value()) == "0") return;
    std::uint32_t speed = whole(net, "speed", 100000000);
    if (speed == 0) {  // NCCL 2.28 graph/topo.cc: unknown means 10 Gb/s
      out_.note("adapters of speed 0: taken for 10 Gb/s, as NCCL takes them");
      speed = 10000;
    }
    node_.nic_gb_per_s.push_back(speed / 8000.0);
    node_.nic_slot_gb_per_s.push_back(slot_share(net));
    ports_.push_back(net);
    direct_ &= std::string_view(net.attribute("gdr").value()) == "1";
  }

  /// Of the ports of one adapter each has as much of its slot.
  double slot_share(const pugi::xml_node& net) {
    const pugi::xml_node adapter = net.parent();
    double ports = 0;
    for (const pugi::xml_node& port : adapter.children("net"))
      if (std::string_view(port.attribute("keep").value()) != "0") ++ports;
    return std::string_view(adapter.name()) == "nic" && ports > 0 ? pcie(adapter.parent()) / ports : 0;
  }

  /// From <system> down.
  static std::vector<pugi::xml_node> way_to(pugi::xml_node node) {
    std::vector<pugi::xml_node> way;
    for (; node.type() == pugi::node_element; node = node.parent()) way.push_back(node);
    std::reverse(way.begin(), way.end());
    return way;
  }

  void find_nearest() {
    std::vector<std::vector<pugi::xml_node>> ports;
    for (const pugi::xml_node& port : ports_) ports.push_back(way_to(port));
    for (const pugi::xml_node& gpu : gpus_) {
      const std::vector<pugi::xml_node> way = way_to(gpu);
      std::size_t deepest = 0;
      std::vector<std::uint32_t> nearest;
      for (std::uint32_t p = 0; p < ports.size(); ++p) {
        const auto end = std::mismatch(way.begin(), way.end(), ports[p].begin(), ports[p].end()).first;
        const auto shared = static_cast<std::size_t>(end - way.begin());
        if (shared > deepest) nearest.clear();
        deepest = std::max(deepest, shared);
        if (shared == deepest) nearest.push_back(p);
      }
      node_.nearest.push_back(std::move(nearest));
    }
  }

  /// Ranks of one node follow its GPUs' numbers, which the file's order need not.
  void sort_gpus() {
    const auto number = [](const pugi::xml_node& gpu) {
      return gpu.attribute("rank") ? gpu.attribute("rank") : gpu.attribute("dev");
    };
    std::stable_sort(gpus_.begin(), gpus_.end(), [&](const pugi::xml_node& a, const pugi::xml_node& b) {
      return number(a).as_ullong() < number(b).as_ullong();
    });
    for (std::size_t i = 1; i < gpus_.size(); ++i) {
      const pugi::xml_attribute own = number(gpus_[i]), before = number(gpus_[i - 1]);
      if (!own.empty() && std::string_view(own.name()) == before.name() && own.as_ullong() == before.as_ullong())
        fail(gpus_[i], fmt::format("{}=\"{}\" is another GPU's too", own.name(), own.value()), "give one node's file");
    }
  }

  void finish() {
    find_nearest();
    node_.gdr = direct_ && !node_.nic_gb_per_s.empty();
    for (const LinkSpeed& speed : kLinkSpeeds)
      if (speed.sm <= node_.sm) node_.nvlink_gb_per_s = speed.gb_per_s * node_.nvlinks;
    if (node_.gpus == 1)
      out_.note("one GPU a node: NCCL writes only what the job's GPUs reach, so GPUs and NICs of a node are one GPU's");
    if (node_.nvlinks == 0) out_.note("GPUs without NVLink");
    if (node_.nic_gb_per_s.empty()) out_.note("no NIC: the network's numbers stay the base profile's");
  }

  std::string_view text_;
  std::string where_;
  Measurements out_;
  NodeTopology node_;
  std::set<std::string> hosts_;
  std::vector<pugi::xml_node> gpus_, ports_;  // that take part
  bool direct_ = true;
  bool failed_ = false;
  Error error_;
};

}  // namespace

Result<Measurements> read_topology(std::string_view text, std::string_view where) {
  return TopologyReader(text, where).read();
}

}  // namespace foreshard::sim
