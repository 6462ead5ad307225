#include <fmt/format.h>

#include <charconv>

#include "sim/calibrate/nccl_size.hpp"
#include "sim/calibrate/nccl_tests.hpp"
#include "sim/calibrate/nccl_tests_run.hpp"

namespace foreshard::sim {
namespace {

std::vector<std::string_view> fields(std::string_view line) {
  std::vector<std::string_view> out;
  for (std::size_t at = line.find_first_not_of(" \t\r"); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    out.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(" \t\r", end);
  }
  return out;
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The line without what a launcher puts before it: srun -l's "0: ", mpirun --tag-output's "[1,0]<stdout>:".
std::string_view without_launcher(std::string_view line) {
  std::size_t at = line.find_first_not_of(' ');
  if (at == std::string_view::npos) return line;
  if (line[at] == '[') {
    const std::size_t tag = line.find("<stdout>:");
    return tag == std::string_view::npos ? line : line.substr(tag + 9);
  }
  const std::size_t digits = line.find_first_not_of("0123456789", at);
  if (digits != std::string_view::npos && digits > at && line[digits] == ':') return line.substr(digits + 1);
  return line;
}

/// Where the columns are, by the heading "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  …".
struct Columns {
  std::size_t type = 0;            ///< 0: none
  std::size_t redop = 0;           ///< 0: none
  std::size_t halves[2] = {0, 0};  ///< of "time" in each half; algbw and busbw follow
  std::size_t wrong[2] = {0, 0};
  std::size_t count = 0;
};

std::optional<Columns> heading(std::string_view line) {
  auto words = fields(line);
  if (words.empty() || words[0] != "#") return std::nullopt;
  words.erase(words.begin());
  if (words.empty() || words[0] != "size") return std::nullopt;
  Columns columns;
  std::size_t half = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "type") columns.type = i;
    if (words[i] == "redop") columns.redop = i;
    if ((words[i] == "time" || words[i] == "cputime") && half < 2) columns.halves[half++] = i;
    if (words[i] == "#wrong" && half > 0) columns.wrong[half - 1] = i;
  }
  columns.count = words.size();
  const std::size_t at = columns.halves[0];
  if (at == 0 || at + 2 >= words.size() || words[at + 1] != "algbw" || words[at + 2] != "busbw") return std::nullopt;
  return columns;
}

class TextReader {
 public:
  TextReader(std::string_view where, const ReadOptions& options) : where_(where), options_(options) {
    out_.format = "nccl-tests text";
  }

  Result<void> line(std::string_view line, std::size_t number) {
    line = without_launcher(line);
    const std::size_t at = line.find_first_not_of(" \t\r");
    if (at == std::string_view::npos) return {};
    place_ = fmt::format("{} line {}", where_, number);
    if (line[at] == '#') return comment(line.substr(at));
    const auto words = fields(line);
    if (words.size() >= 4 && words[0].front() >= '0' && words[0].front() <= '9' && parse_nccl_size(words[0]))
      return row(words);
    out_.note("lines that nccl-tests does not print");
    return {};
  }

  Result<Measurements> finish() {
    FORESHARD_TRY(end_run());
    return std::move(out_);
  }

 private:
  Result<void> comment(std::string_view line) {
    if (const auto columns = heading(line)) {
      columns_ = columns;
      return {};
    }
    if (line.find("nThread ") != std::string_view::npos || line.find("# nccl-tests version") == 0) {
      // A header: of a new run if this one has rows.
      if (!run_.rows.empty() || !run_.hosts.empty())
        if (auto ok = end_run(); !ok) return ok;
    } else if (const std::size_t at = line.find("Collective test starting:"); at != std::string_view::npos) {
      const auto words = fields(line.substr(at + 25));
      if (!words.empty()) run_.program = std::string(words[0]);
    } else if (line.find("Rank ") != std::string_view::npos && line.find(" on ") != std::string_view::npos) {
      return rank(line);
    } else if (line.find("Avg bus bandwidth") != std::string_view::npos) {
      finished_ = true;
    }
    return {};
  }

  /// "#  Rank  0 Group  0 Pid   6287 on     fs-207 device  0 [0x18] NVIDIA H200"; older ones have no Group.
  Result<void> rank(std::string_view line) {
    if (!run_.rows.empty())
      if (auto ok = end_run(); !ok) return ok;
    const auto words = fields(line);
    std::string_view host, group = "0";
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] == "Group") group = words[i + 1];
      if (words[i] == "on" && host.empty()) host = words[i + 1];
    }
    if (host.empty()) return fail(ErrorKind::input, "a line of a rank names no host", place_);
    if (group != "0") {
      out_.note("ranks of other groups than 0");
      return {};
    }
    ++run_.hosts[std::string(host)];
    if (const std::size_t name = line.find("] "); run_.gpu.empty() && name != std::string_view::npos)
      run_.gpu = std::string(line.substr(name + 2));
    return {};
  }

  Result<std::optional<NcclTestsTime>> half(const std::vector<std::string_view>& words, std::size_t which) {
    const std::size_t at = columns_->halves[which];
    if (at == 0 || at + 2 >= words.size()) return std::nullopt;
    if (words[at] == "N/A") return std::nullopt;
    const auto us = number<double>(words[at]), algorithm = number<double>(words[at + 1]),
               bus = number<double>(words[at + 2]);
    if (!us || !algorithm || !bus || !(*us > 0) || !(*us < 1e12) || !(*algorithm >= 0) || !(*bus >= 0))
      return fail(ErrorKind::input, "time, algbw and busbw are no numbers above 0", place_, "is the file damaged?");
    const std::size_t wrong = columns_->wrong[which];
    if (wrong != 0 && wrong < words.size() && words[wrong] != "N/A" && number<double>(words[wrong]).value_or(1) != 0)
      return fail(ErrorKind::input, fmt::format("#wrong is {}: the collective gave wrong results", words[wrong]),
                  place_, "times of a broken collective are not used; find out why first");
    return NcclTestsTime{*us, *algorithm, *bus};
  }

  Result<void> row(const std::vector<std::string_view>& words) {
    if (!columns_)
      return fail(ErrorKind::input, "a row of numbers before the heading of the table", place_,
                  "keep the lines that begin with # in the file");
    if (words.size() < columns_->count && words.size() <= columns_->halves[0] + 2)
      return fail(ErrorKind::input, fmt::format("the row has {} of {} columns", words.size(), columns_->count), place_,
                  "is the file cut short?");
    NcclTestsRow row;
    row.place = place_;
    const auto bytes = parse_nccl_size(words[0]);
    if (!bytes || *bytes > (Bytes{1} << 50)) return fail(ErrorKind::input, "the size is no size", place_);
    row.bytes = *bytes;
    if (columns_->redop != 0 && columns_->redop < words.size()) row.operation = std::string(words[columns_->redop]);
    if (columns_->type != 0 && columns_->type < words.size()) row.type = std::string(words[columns_->type]);
    auto first = half(words, 0);
    FORESHARD_TRY(first);
    auto second = half(words, 1);
    FORESHARD_TRY(second);
    row.out_of_place = *first;
    row.in_place = *second;
    run_.rows.push_back(std::move(row));
    return {};
  }

  Result<void> end_run() {
    if (!run_.rows.empty() && !finished_) out_.note("tables without a footer: the run was cut short");
    auto ok = add_run(run_, where_, options_, out_);
    run_ = {};
    finished_ = false;
    return ok;
  }

  std::string where_;
  ReadOptions options_;
  std::string place_;
  std::optional<Columns> columns_;
  NcclTestsRun run_;
  bool finished_ = false;
  Measurements out_;
};

}  // namespace

bool looks_like_nccl_tests(std::string_view text) {
  return text.find("algbw") != std::string_view::npos && text.find("busbw") != std::string_view::npos;
}

Result<Measurements> read_nccl_tests_text(std::string_view text, std::string_view where, const ReadOptions& options) {
  TextReader reader(where, options);
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    FORESHARD_TRY(reader.line(text.substr(0, end), ++number));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.finish();
}

}  // namespace foreshard::sim
