// Matrices, and the data set: 150 rows of four measures and a class.
#pragma once

#include <cmath>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace mlp {

/// Row-major; a row is a sample.
struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;

  void resize(std::size_t newRows, std::size_t newColumns) {
    rows = newRows;
    columns = newColumns;
    values.assign(rows * columns, 0);
  }
  double &at(std::size_t row, std::size_t column) { return values[row * columns + column]; }
  double at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

struct Dataset {
  Matrix features;
  std::vector<unsigned> classes;
};

/// Reads the file, orders the rows so that classes mix, and scales every feature to mean 0 and deviation 1.
inline Dataset readDataset(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error("cannot read " + path);
  std::string line;
  std::getline(file, line); // names of the columns
  std::vector<std::vector<double>> rows;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::vector<double> row;
    for (std::string cell; std::getline(cells, cell, ',');)
      row.push_back(std::stod(cell));
    rows.push_back(std::move(row));
  }

  Dataset data;
  data.features.resize(rows.size(), 4);
  const std::size_t stride = 53; // shares no factor with 150, so it visits every row
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<double> &row = rows[i * stride % rows.size()];
    for (std::size_t f = 0; f < 4; ++f)
      data.features.at(i, f) = row.at(f);
    data.classes.push_back(static_cast<unsigned>(row.at(4)));
  }
  for (std::size_t f = 0; f < 4; ++f) {
    double mean = 0, square = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      mean += data.features.at(i, f) / static_cast<double>(rows.size());
      square += data.features.at(i, f) * data.features.at(i, f) / static_cast<double>(rows.size());
    }
    for (std::size_t i = 0; i < rows.size(); ++i)
      data.features.at(i, f) = (data.features.at(i, f) - mean) / std::sqrt(square - mean * mean);
  }
  return data;
}

} // namespace mlp
