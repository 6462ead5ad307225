// Option values that carry units, for CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::cli {

/// Adds an option whose text `parse` reads; its Error becomes CLI11's, with what and hint.
template <class Value>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, std::optional<Value>& value,
                        Result<Value> (*parse)(std::string_view), const std::string& help) {
  return app.add_option_function<std::string>(
      name,
      [&value, parse, name](const std::string& text) {
        const Result<Value> parsed = parse(text);
        if (!parsed) throw CLI::ValidationError(name, parsed.error().text());
        value = *parsed;
      },
      help);
}

/// Refuses to write over a file that is there, unless forced.
[[nodiscard]] Result<void> may_write(const std::string& path, bool force);

/// Writes a file that appears under its name only when it is whole; refuses one that is there, unless forced.
[[nodiscard]] Result<void> write_text(const std::string& path, const std::string& text, bool force);

/// The whole of a small text file (settings, prefetch lists), at most 64 MiB.
[[nodiscard]] Result<std::string> read_text(const std::string& path);

}  // namespace foreshard::cli
