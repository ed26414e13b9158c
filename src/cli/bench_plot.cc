#include "cli/bench_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace pergola::cli {
namespace {

constexpr double kWidth = 900;
constexpr double kLeft = 80;
constexpr double kRight = 200;  // of the names of lines
constexpr double kPanelHeight = 260;
constexpr double kTop = 40;
constexpr double kBottom = 30;
// Told apart by those who see no red or no green, too.
constexpr std::array<std::string_view, 6> kColours = {"#0072b2", "#d55e00", "#009e73",
                                                      "#cc79a7", "#e69f00", "#56b4e9"};

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

bool IsDrawn(double value) { return std::isfinite(value) && value >= 0; }

// The least of 1, 2 and 5 times a power of ten that is not below `value`.
double RoundUp(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (value <= step * power) return step * power;
  }
  return 10 * power;
}

void AppendText(double x, double y, std::string_view anchor, std::string_view text,
                std::string* svg) {
  *svg += "<text x=\"" + Number(x) + "\" y=\"" + Number(y) + "\" text-anchor=\"" +
          std::string(anchor) + "\">" + Escaped(text) + "</text>\n";
}

class Panel {
 public:
  Panel(const PlotPanel& panel, size_t places, double top)
      : panel_(panel), places_(places), top_(top) {
    double largest = 0;
    for (const PlotLine& line : panel.lines) {
      for (const double value : line.values) {
        if (IsDrawn(value)) largest = std::max(largest, value);
      }
    }
    most_ = largest > 0 ? RoundUp(largest) : 1;
  }

  void Append(const std::vector<std::string>& names, std::string* svg) const {
    AppendText(kLeft, top_ + 20, "start", panel_.title, svg);
    constexpr int kTicks = 4;
    for (int tick = 0; tick <= kTicks; ++tick) {
      const double value = most_ * tick / kTicks;
      *svg += "<path stroke=\"#ddd\" d=\"M" + Number(kLeft) + " " + Number(Y(value)) + "H" +
              Number(kWidth - kRight) + "\"/>\n";
      AppendText(kLeft - 8, Y(value) + 4, "end", Number(value), svg);
    }
    for (size_t place = 0; place < places_; ++place) {
      AppendText(X(place), top_ + kPanelHeight - 10, "middle", names[place], svg);
    }
    for (size_t line = 0; line < panel_.lines.size(); ++line) AppendLine(line, svg);
  }

 private:
  double X(size_t place) const {
    const double width = kWidth - kLeft - kRight;
    return kLeft + width * (static_cast<double>(place) + 0.5) / static_cast<double>(places_);
  }
  double Y(double value) const {
    const double height = kPanelHeight - kTop - kBottom;
    return top_ + kTop + height * (1 - value / most_);
  }

  void AppendLine(size_t number, std::string* svg) const {
    const PlotLine& line = panel_.lines[number];
    const std::string colour(kColours[number % kColours.size()]);
    std::string path;
    for (size_t place = 0; place < std::min(places_, line.values.size()); ++place) {
      if (!IsDrawn(line.values[place])) continue;
      const std::string at = Number(X(place)) + " " + Number(Y(line.values[place]));
      path += (path.empty() ? "M" : "L") + at;
      *svg += "<circle r=\"3\" fill=\"" + colour + "\" cx=\"" + Number(X(place)) + "\" cy=\"" +
              Number(Y(line.values[place])) + "\"/>\n";
    }
    *svg += "<path fill=\"none\" stroke-width=\"2\" stroke=\"" + colour + "\" d=\"" + path +
            "\"/>\n<g fill=\"" + colour + "\">\n";
    AppendText(kWidth - kRight + 12, top_ + kTop + 18 * static_cast<double>(number) + 8, "start",
               line.name, svg);
    *svg += "</g>\n";
  }

  const PlotPanel& panel_;
  const size_t places_;
  const double top_;
  double most_ = 1;
};

}  // namespace

std::string PlotSvg(const std::vector<std::string>& places, const std::vector<PlotPanel>& panels) {
  const std::string height = Number(kPanelHeight * static_cast<double>(panels.size()));
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + Number(kWidth) +
                    " " + height + "\" width=\"" + Number(kWidth) + "\" height=\"" + height +
                    "\" font-family=\"sans-serif\" font-size=\"12\">\n" +
                    "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  for (size_t panel = 0; panel < panels.size(); ++panel) {
    Panel(panels[panel], places.size(), kPanelHeight * static_cast<double>(panel))
        .Append(places, &svg);
  }
  return svg + "</svg>\n";
}

}  // namespace pergola::cli
