#include "cli/terminal/output.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/terminal/printable.hpp"
#include "core/base/json_io.hpp"

namespace foreshard::cli {
namespace {

/// Characters, not bytes: continuation bytes of UTF-8 do not count.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

Json json_result(std::string_view verb) {
  Json json = Json::object();
  json["schema"] = kJsonSchema;
  json["verb"] = std::string(verb);
  return json;
}

void print_json(std::ostream& out, const Json& json) {
  out << json_text(json, 2) << '\n';
}

void Table::row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell, Lines::one);
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(width(column.title));
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  return widths;
}

void Table::print_row(std::ostream& out, const std::vector<std::size_t>& widths,
                      const std::vector<std::string>& cells) const {
  std::string line;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string cell = i < cells.size() ? cells[i] : std::string();
    const std::string blanks(widths[i] - std::min(widths[i], width(cell)), ' ');
    line += (i == 0 ? "" : "  ") + (columns_[i].align == Align::left ? cell + blanks : blanks + cell);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

void Table::print_titles(std::ostream& out, const std::vector<std::size_t>& widths) const {
  const bool titled =
      std::any_of(columns_.begin(), columns_.end(), [](const Column& column) { return !column.title.empty(); });
  if (!titled) return;
  std::vector<std::string> titles, rules;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    rules.emplace_back(widths[i], '-');
  }
  print_row(out, widths, titles);
  print_row(out, widths, rules);
}

void Table::print(std::ostream& out) const {
  const std::vector<std::size_t> wide = widths();
  print_titles(out, wide);
  for (const auto& row : rows_) print_row(out, wide, row);
}

void Table::print_more(std::ostream& out) {
  if (printed_widths_.empty()) {
    printed_widths_ = widths();
    print_titles(out, printed_widths_);
  }
  for (const auto& row : rows_) print_row(out, printed_widths_, row);
  rows_.clear();
}

std::string exact_bytes(Bytes bytes) {
  std::string digits = std::to_string(bytes);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string milliseconds(double ms) {
  return fmt::format("{:.2f} ms", ms);
}

std::string change(double before, double after) {
  if (before == 0) return {};
  return fmt::format("{:+.1f} %", (after - before) / before * 100);
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace foreshard::cli
