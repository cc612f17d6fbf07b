# model: "demo"
# model_sha256: "07f4e7d807b2a10353fd19806ee02d05c261621f127548e25f26cf7433e8c2e1"
# heads_sha256: "8c6c9b62d56f2733b087cb8462f3355d36d2bf9590cdba6225a0911409fe2ecc"
# template: "none"
# temperature: 0.0
# positions: 3945
# dtype: "float32"
# device: "cpu"
# batch: 1
# context: 95
treeopt_8 = [(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]
