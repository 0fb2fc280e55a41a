// 8x8 matrices over a SIMD group: lane l holds two neighbours in a row, as Apple GPUs do. The prelude defines before it
// metal::msl_lane(). Correct, not fast: the products are made of shuffles.
#pragma once

namespace metal {

template <class T, int Rows, int Columns>
struct simdgroup_matrix {
  static_assert(Rows == 8 && Columns == 8, "simdgroup matrices are 8x8");
  T held[2];  // (row, column) and (row, column + 1)

  simdgroup_matrix() = default;
  // A diagonal matrix.
  MSL_FN explicit simdgroup_matrix(T value) {
    const int right = row_of(msl_lane()) - column_of(msl_lane());
    held[0] = right == 0 ? value : T(0);
    held[1] = right == 1 ? value : T(0);
  }
  MSL_FN vec<T, 2>& thread_elements() { return *(vec<T, 2>*)held; }

  static MSL_FN int row_of(int lane) { return (lane >> 4) * 4 + (lane >> 1 & 3); }
  static MSL_FN int column_of(int lane) { return (lane >> 3 & 1) * 4 + (lane & 1) * 2; }
  static MSL_FN int holder(int row, int column) {
    return (row >> 2) << 4 | (column >> 2) << 3 | (row & 3) << 1 | (column >> 1 & 1);
  }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half_t, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat_t, 8, 8> simdgroup_bfloat8x8;

template <class T, int Rows, int Columns>
MSL_FN simdgroup_matrix<T, Rows, Columns> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Rows, Columns> matrix;
  matrix.held[0] = matrix.held[1] = value;
  return matrix;
}

// Where the j-th element that this lane holds is in memory.
MSL_FN unsigned long msl_element(int j, unsigned long stride, vec<unsigned long, 2> origin, bool transpose) {
  const unsigned long row = simdgroup_float8x8::row_of(msl_lane());
  const unsigned long column = simdgroup_float8x8::column_of(msl_lane()) + j;
  return (origin.y + (transpose ? column : row)) * stride + origin.x + (transpose ? row : column);
}
template <class T>
MSL_FN void simdgroup_load(simdgroup_matrix<T, 8, 8>& matrix, const T* from, unsigned long stride = 8,
                           vec<unsigned long, 2> origin = vec<unsigned long, 2>(0), bool transpose = false) {
  for (int j = 0; j < 2; j++) matrix.held[j] = from[msl_element(j, stride, origin, transpose)];
}
template <class T>
MSL_FN void simdgroup_store(simdgroup_matrix<T, 8, 8> matrix, T* to, unsigned long stride = 8,
                            vec<unsigned long, 2> origin = vec<unsigned long, 2>(0), bool transpose = false) {
  for (int j = 0; j < 2; j++) to[msl_element(j, stride, origin, transpose)] = matrix.held[j];
}

}  // namespace metal
