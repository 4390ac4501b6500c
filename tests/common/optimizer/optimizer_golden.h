// Weights that PyTorch 2.13.0 computes, written by make_optimizer_golden.py.
#ifndef TRIBUTARY_TESTS_COMMON_OPTIMIZER_OPTIMIZER_GOLDEN_H_
#define TRIBUTARY_TESTS_COMMON_OPTIMIZER_OPTIMIZER_GOLDEN_H_

namespace tributary {

inline constexpr int kGoldenCount = 6;
inline constexpr int kGoldenSteps = 4;

// The weights of kGoldenCount parameters after each of kGoldenSteps steps, one
// array for each optimizer.
inline constexpr float kSgdPlain[kGoldenSteps][kGoldenCount] = {
    {-0.641257167f, -0.442857146f, -0.242457151f, -0.0428571478f, 0.484914303f,
     0.685714245f},
    {-0.568546057f, -0.471428573f, -0.370543659f, 0.0571428537f, 0.483944476f,
     0.585714221f},
    {-0.581694663f, -0.585714281f, -0.255516857f, 0.0714285672f, 0.397262305f,
     0.728571355f},
    {-0.680531263f, -0.45714286f, -0.226434395f, -7.02483316e-09f, 0.553610623f,
     0.785714209f},
};

inline constexpr float kSgdMomentum[kGoldenSteps][kGoldenCount] = {
    {-0.641257167f, -0.442857146f, -0.242457151f, -0.0428571478f, 0.484914303f,
     0.685714245f},
    {-0.425677508f, -0.419999987f, -0.408755094f, -0.0714285746f, 0.560367346f,
     0.572857082f},
    {-0.245090187f, -0.513714254f, -0.443320006f, -0.0828571469f, 0.54144007f,
     0.614142835f},
    {-0.182071432f, -0.4694857f, -0.44497034f, -0.164571434f, 0.68046546f,
     0.708442867f},
};

inline constexpr float kSgdNesterov[kGoldenSteps][kGoldenCount] = {
    {-0.514262855f, -0.397142857f, -0.276422858f, -0.157142863f, 0.552845716f,
     0.67428571f},
    {-0.282244653f, -0.412f, -0.534028888f, -0.0685714409f, 0.605200648f,
     0.485142857f},
    {-0.179293975f, -0.606742859f, -0.430062056f, -0.052000016f, 0.491504669f,
     0.670971453f},
    {-0.265311003f, -0.43968001f, -0.386194795f, -0.178742886f, 0.751175344f,
     0.808205724f},
};

inline constexpr float kAdam[kGoldenSteps][kGoldenCount] = {
    {-0.790000021f, -0.49000001f, -0.209999979f, 0.0900000036f, 0.409999996f,
     0.690000057f},
    {-0.780921221f, -0.487875432f, -0.219335899f, 0.0893535092f, 0.416251004f,
     0.681438148f},
    {-0.774780869f, -0.49324888f, -0.219909966f, 0.089471437f, 0.414271027f,
     0.683581471f},
    {-0.774039328f, -0.491506815f, -0.219241157f, 0.0869423077f, 0.418604612f,
     0.687241495f},
};

inline constexpr float kAdamW[kGoldenSteps][kGoldenCount] = {
    {-0.789200008f, -0.49000001f, -0.209800005f, 0.0900000036f, 0.40959999f,
     0.689999998f},
    {-0.779217124f, -0.48733303f, -0.21875146f, 0.0887794048f, 0.415906191f,
     0.681704223f},
    {-0.771869004f, -0.491894543f, -0.219833404f, 0.0883605331f, 0.414631635f,
     0.683207393f},
    {-0.769360006f, -0.490498245f, -0.219741791f, 0.0858360082f, 0.418376505f,
     0.686182678f},
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_OPTIMIZER_OPTIMIZER_GOLDEN_H_
