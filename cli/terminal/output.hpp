// How results look: aligned tables for people, JSON with a schema number for programs.
//
// Used by the verbs. Pure text; equal input gives equal bytes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/json_schema.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::cli {

/// <nlohmann/json.hpp> is for the sources that make or read one.
using Json = nlohmann::ordered_json;

/// What every verb's --json begins with: "schema" (kJsonSchema) and "verb".
[[nodiscard]] Json json_result(std::string_view verb);
/// Two-space indentation and a final newline. Text that is not UTF-8 is shown with replacement characters.
void print_json(std::ostream& out, const Json& json);

/// Columns of equal width, two blanks between them, numbers to the right. Wide characters count as one.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;  ///< empty titles everywhere: no heading
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One cell a column; missing ones are empty. What would move the cursor is written out (printable()).
  void row(std::vector<std::string> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  void print(std::ostream& out) const;
  /// Prints the rows that were added since the last time, below those and as wide as the first time.
  void print_more(std::ostream& out);

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;
  void print_titles(std::ostream& out, const std::vector<std::size_t>& widths) const;
  void print_row(std::ostream& out, const std::vector<std::size_t>& widths,
                 const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> printed_widths_;  ///< of the first print_more()
};

/// "16,793,993,216" as 16793993216 bytes are shown beside "15.64 GiB".
[[nodiscard]] std::string exact_bytes(Bytes bytes);
/// "174.02 ms"
[[nodiscard]] std::string milliseconds(double ms);
/// "+3.1 %", or "" where `before` is 0.
[[nodiscard]] std::string change(double before, double after);
/// One field of comma-separated values, quoted where RFC 4180 wants it.
[[nodiscard]] std::string csv_field(std::string_view text);

}  // namespace foreshard::cli
