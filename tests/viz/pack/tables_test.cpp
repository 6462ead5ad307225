// The tables of a pack: what the page is told, what docs/view.md says and what the pieces hold agree.

#include "viz/pack/tables.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/viz/pack/decode.hpp"
#include "tests/viz/svg/drawn_runs.hpp"
#include "viz/pack/rank_pieces.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

using Json = nlohmann::json;

Pack packed(const Run& run) {
  auto pack = Pack::make(run, {});
  REQUIRE(pack);
  return std::move(*pack);
}

Json meta_of(const Pack& pack) {
  return Json::parse(inflated(*pack.piece("meta")));
}

std::vector<std::string> marked_names(const TableLayout& table) {
  std::vector<std::string> out;
  for (const ColumnInfo& column : table.columns) out.push_back(marked_name(column));
  return out;
}

/// How many entries the list of an index has; nothing for what is no index.
std::optional<std::size_t> entries_of(ColumnType type, const Json& meta, const Json& names) {
  switch (type) {
    case ColumnType::name:
      return names.size();
    case ColumnType::unit:
      return meta["units"].size();
    case ColumnType::parameter:
      return meta["parameters"].size();
    case ColumnType::category:
      return meta["categories"].size();
    case ColumnType::lane_class:
      return meta["classes"].size();
    case ColumnType::device_kind:
      return meta["words"]["device_kind"].size();
    case ColumnType::host_kind:
      return meta["words"]["host_kind"].size();
    case ColumnType::collective:
      return meta["words"]["collective"].size();
    case ColumnType::transport:
      return meta["words"]["transport"].size();
    case ColumnType::device_op:
      return meta["device_ops"];
    case ColumnType::host_op:
      return meta["host_ops"];
    case ColumnType::block:
      return meta["blocks"]["count"];
    case ColumnType::block_class:
      return meta["blocks"]["classes"].size();
    case ColumnType::track:
      return meta["tracks"].size();
    default:
      return std::nullopt;
  }
}

}  // namespace

TEST_CASE("no two tables and no two columns of a table have one name") {
  std::set<std::string_view> tables;
  for (const TableLayout& table : kTables) {
    CHECK(tables.insert(table.name).second);
    std::set<std::string_view> columns;
    bool lists = false, optional = false;
    for (const ColumnInfo& column : table.columns) {
      INFO(table.name << " " << column.name);
      CHECK(columns.insert(column.name).second);
      CHECK_FALSE((optional && column.use != ColumnUse::optional));
      lists = lists || column.use == ColumnUse::list;
      optional = optional || column.use == ColumnUse::optional;
    }
    CHECK_FALSE((lists && optional));  // or their number would not tell which are there
  }
}

TEST_CASE("a table's columns are found by their names") {
  ColumnTable table(kMemoryStack, {.list_length = 3});
  REQUIRE(table.columns().size() == 7);
  table["time"] = {1};
  table.list("last")[2] = {2};
  CHECK(table.columns().front() == Column{1});
  CHECK(table.columns().back() == Column{2});
  CHECK(table.list("highest").size() == 3);
  CHECK(ColumnTable(kTrack).columns().size() + 2 == ColumnTable(kTrack, {.optional = true}).columns().size());
}

TEST_CASE("the page is told each table's columns in the order of the pieces") {
  const Run run = small_run();  // a Pack reads it until its end
  const Json meta = meta_of(packed(run));
  CHECK(meta["tables"].size() == kTables.size());
  for (const TableLayout& table : kTables)
    CHECK(meta["tables"][std::string(table.name)].get<std::vector<std::string>>() == marked_names(table));
  for (const Json& stacking : meta["memory"]["stackings"])
    if (stacking.contains("rest")) CHECK(stacking["rest"] < stacking["components"].size());
}

TEST_CASE("every column of every piece is filled, and every index points into its list") {
  const Run run = small_run();
  const Pack pack = packed(run);
  const Json meta = meta_of(pack), names = Json::parse(inflated(*pack.piece("names")));
  for (const std::string& piece : pack.names()) {
    if (piece == "meta" || piece == "names") continue;
    const TableLayout layout = layout_of(piece);
    const NamedColumns columns = table(pack, piece);
    const auto first = columns.find(std::string(layout.columns.front().name));
    const bool empty = first == columns.end() || first->second.empty();
    for (const ColumnInfo& info : layout.columns) {
      const auto found = columns.find(std::string(info.name));
      if (found == columns.end()) continue;
      const Column& column = found->second;
      INFO(piece << " " << info.name);
      const bool wait = info.name.starts_with("wait_");  // an op may wait for nothing
      CHECK((wait || empty || !column.empty()));
      const auto entries = entries_of(info.type, meta, names);
      if (!entries) continue;
      const auto outside = [&](std::int64_t value) {
        return value < -1 || value >= static_cast<std::int64_t>(*entries);
      };
      CHECK(std::none_of(column.begin(), column.end(), outside));
    }
  }
}

TEST_CASE("docs/view.md lists the tables and their columns") {
  std::ifstream file("docs/view.md", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  REQUIRE_FALSE(text.empty());
  for (const TableLayout& table : kTables) {
    std::string row = "| `" + std::string(table.name) + "` |";
    std::string before = " ";
    for (const std::string& column : marked_names(table)) {
      row += before + "`" + column + "`";
      before = ", ";
    }
    INFO(row);
    CHECK(text.find(row + " |") != std::string::npos);
  }
}

TEST_CASE("thousands of rows of ranks have no finer cells in all than a thousand") {
  constexpr std::int64_t kSpan = 1 << 20;
  constexpr std::uint32_t kRanks = 4096;
  Run run;
  run.info.kind = RunKind::planned;
  run.settings.gpus = kRanks;
  run.labels.intern("kernel");
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    run.ranks.push_back({rank, {}, {}});
    for (std::int64_t i = 0; i < 4; ++i) {
      DeviceOpRecord op;
      op.stream = kComputeStream;
      op.label = LabelId{0};
      op.start = op.issue = {i * kSpan / 4};
      op.end = {i * kSpan / 4 + (i == 3 ? kSpan / 4 : 600 * (i + 1))};
      run.rank_ops.push_back({rank, 0, {}, -1, op});
    }
  }
  const ColumnTable cells = RankPieces(run, {}).cells();
  const Column& lengths = cells["length"];
  REQUIRE(lengths.size() >= kRanks);
  CHECK(*std::min_element(lengths.begin(), lengths.end()) >= column_value(kSpan / 512));  // 2^21 cells at most
}
