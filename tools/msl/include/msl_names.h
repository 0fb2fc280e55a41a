// Metal's spelling, after everything else: from here on these words mean what they mean in a shader. Types that CUDA
// has too, like float4, get the names that MSL_VECTORS gave them.
#pragma once

#define device
#define constant const
#define thread
#define threadgroup
#define half metal::half_t
#define bfloat metal::bfloat_t

#define char2 msl_char2
#define char3 msl_char3
#define char4 msl_char4
#define uchar2 msl_uchar2
#define uchar3 msl_uchar3
#define uchar4 msl_uchar4
#define short2 msl_short2
#define short3 msl_short3
#define short4 msl_short4
#define ushort2 msl_ushort2
#define ushort3 msl_ushort3
#define ushort4 msl_ushort4
#define int2 msl_int2
#define int3 msl_int3
#define int4 msl_int4
#define uint2 msl_uint2
#define uint3 msl_uint3
#define uint4 msl_uint4
#define long2 msl_long2
#define long3 msl_long3
#define long4 msl_long4
#define ulong2 msl_ulong2
#define ulong3 msl_ulong3
#define ulong4 msl_ulong4
#define float2 msl_float2
#define float3 msl_float3
#define float4 msl_float4
#define half2 msl_half2
#define half3 msl_half3
#define half4 msl_half4
#define bfloat2 msl_bfloat2
#define bfloat3 msl_bfloat3
#define bfloat4 msl_bfloat4

#define M_PI_F 3.14159274101257324219f
#define __METAL_VERSION__ 310
