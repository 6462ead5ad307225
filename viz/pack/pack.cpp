#include "viz/pack/pack.hpp"

#include <fmt/core.h>

#include <functional>
#include <memory>
#include <utility>

#include "viz/pack/pack_parts.hpp"
#include "viz/scene/device_clock.hpp"

namespace foreshard::viz {
PackParts::PackParts(const Run& run_in, Window window_in, std::string stacking_in)
    : run(run_in),
      window(std::move(window_in)),
      stacking(std::move(stacking_in)),
      memory_origin(window.memory  ? window.memory->origin
                    : window.lanes ? window.lanes->origin
                                   : Nanoseconds{}),
      lane_origin(window.lanes ? window.lanes->origin : memory_origin),
      names(run.labels),
      facts(run),
      tracks(run, facts, lane_origin),
      ops(run, facts, tracks, lane_origin, names),
      ranks(run, lane_origin) {
  if (run.allocator.empty()) return;
  memory.emplace(run, memory_origin);
  blocks.emplace(run, memory_origin, memory->groups(), names);
}

struct Pack::Parts {
  Parts(const Run& run, Window window, std::string stacking) : of(run, std::move(window), std::move(stacking)) {
    add("meta", [this] { return meta_json(of); });
    add("names", [this] { return names_json(of); });
    add_memory();
    add_blocks();
    add_tracks();
    add_ops();
  }

  void add(std::string name, std::function<std::string()> make) {
    names.push_back(name);
    makers.emplace(std::move(name), std::move(make));
  }

  void add_memory() {
    if (!of.memory) return;
    const auto& levels = of.memory->levels();
    for (std::size_t level = 0; level + 1 < levels.size(); ++level)
      for (std::size_t tile = 0; tile < levels[level].tiles.size(); ++tile) {
        add(fmt::format("memory/lines/{}/{}", level, tile),
            [this, level, tile] { return encode(of.memory->statistics(level, tile).columns()); });
        for (std::size_t k = 0; k < kStackings; ++k)
          if (const auto stacking = static_cast<Stacking>(k); !of.memory->components(stacking).empty())
            add(fmt::format("memory/{}/{}/{}", name(stacking), level, tile),
                [this, stacking, level, tile] { return encode(of.memory->stack(stacking, level, tile).columns()); });
      }
    for (std::size_t tile = 0; tile < levels.back().tiles.size(); ++tile)
      add(fmt::format("memory/events/{}", tile), [this, tile] { return encode(of.memory->events(tile).columns()); });
  }

  void add_blocks() {
    if (!of.blocks) return;
    add("segments", [this] { return encode(of.blocks->segment_table().columns()); });
    add("find/blocks", [this] { return encode(of.blocks->find_table().columns()); });
    for (std::size_t k = 0; k < of.blocks->classes().size(); ++k)
      for (std::size_t tile = 0; tile < tile_count(of.blocks->classes()[k].lives.size()); ++tile)
        add(fmt::format("blocks/{}/{}", k, tile),
            [this, k, tile] { return encode(of.blocks->tile(k, tile).columns()); });
    for (std::size_t level = 0; level < of.blocks->merged().size(); ++level)
      for (std::size_t tile = 0; tile < tile_count(of.blocks->merged()[level].entries.size()); ++tile)
        add(fmt::format("merged/{}/{}", level, tile),
            [this, level, tile] { return encode(of.blocks->merged_tile(level, tile).columns()); });
  }

  void add_tracks() {
    for (std::size_t track = 0; track < of.tracks.tracks().size(); ++track) {
      const auto& levels = of.tracks.tracks()[track].levels;
      add(fmt::format("totals/{}", track), [this, track] { return encode(of.tracks.totals(track).columns()); });
      for (std::size_t level = 0; level < levels.size(); ++level)
        for (std::size_t tile = 0; tile < tile_count(levels[level].bars.size()); ++tile)
          add(fmt::format("track/{}/{}/{}", track, level, tile),
              [this, track, level, tile] { return encode(of.tracks.tile(track, level, tile).columns()); });
    }
  }

  void add_ops() {
    for (std::size_t tile = 0; tile < tile_count(of.run.device_ops.size()); ++tile)
      add(fmt::format("ops/{}", tile), [this, tile] { return encode(of.ops.device_tile(tile).columns()); });
    for (std::size_t tile = 0; of.run.ranks.size() > 1 && tile < tile_count(of.run.rank_ops.size()); ++tile)
      add(fmt::format("rankops/{}", tile), [this, tile] { return encode(of.ops.rank_tile(tile).columns()); });
    for (std::size_t tile = 0; tile < tile_count(of.run.host_ops.size()); ++tile)
      add(fmt::format("hostops/{}", tile), [this, tile] { return encode(of.ops.host_tile(tile).columns()); });
    if (!of.ranks.empty()) {
      add("rankmap", [this] { return of.ranks.map_json(); });
      add("rankcells", [this] { return encode(of.ranks.cells().columns()); });
    }
    add("find/ops", [this] { return encode(of.ops.find_device().columns()); });
    add("find/hostops", [this] { return encode(of.ops.find_host().columns()); });
  }

  std::unique_ptr<const Run> without;  ///< without_device_clock() of the run, of which `of` is then
  PackParts of;
  std::vector<std::string> names;
  std::map<std::string, std::function<std::string()>, std::less<>> makers;
};

Result<Pack> Pack::make(const Run& run, const PackOptions& options) {
  WindowRequest request;
  request.step = options.step;
  request.all = options.all;
  request.from = options.from;
  request.to = options.to;
  auto without = without_device_clock(run);
  const Run& shown = without ? *without : run;
  auto window = choose_window(shown, request);
  FORESHARD_TRY(window);
  if (options.by) FORESHARD_TRY(check_groups(shown, *options.by));
  std::string stacking(options.by ? name(*options.by) : name(Stacking::category));
  auto parts = std::make_unique<Parts>(shown, std::move(*window), std::move(stacking));
  parts->without = std::move(without);
  return Pack(std::move(parts));
}

Pack::Pack(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Pack::Pack(Pack&&) noexcept = default;
Pack& Pack::operator=(Pack&&) noexcept = default;
Pack::~Pack() = default;

const std::vector<std::string>& Pack::names() const {
  return parts_->names;
}

std::optional<std::string> Pack::piece(std::string_view name) const {
  const auto found = parts_->makers.find(name);
  if (found == parts_->makers.end()) return std::nullopt;
  return compressed(found->second());
}

}  // namespace foreshard::viz
