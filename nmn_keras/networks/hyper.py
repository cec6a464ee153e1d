"""The recurrent hypernetwork."""

from nmn_keras.layers import HyperDense
from nmn_keras.networks.recurrent import RecurrentNetwork


class Hyper(RecurrentNetwork):
    """An embedding of the last cell's state generates all weights of a main network fed `x_t`.

    References: Ha et al., "HyperNetworks", ICLR 2017; Beck et al., "Hypernetworks in Meta-Reinforcement Learning", CoRL
    2022, and "Recurrent Hypernetworks are Surprisingly Strong in Meta-RL", NeurIPS 2023.
    """

    def _create_readout(self):
        self.signal = self._signal_layer()
        self.main = self._main_layers(HyperDense, ["kernel_initializer"])

    def _readout(self, seen, context):
        return self._run_main(seen, self.signal(context)), None
